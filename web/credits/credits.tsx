// Credits: who earned how much, which sessions spent it, what budgets are left, and the head that vouches for all of it.

import type { Balance, Spending } from "../../src/protocol/gen/dcnr/v1/ledger_pb.ts";
import { ledger } from "../api.ts";
import { date, plural, short } from "../format.ts";
import { useAsked } from "../live/asked.ts";
import { Empty } from "../parts/empty.tsx";
import { Panel } from "../parts/panel.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { formatAddress } from "../place/address.ts";
import { useTitle } from "../place/use-address.ts";
import { byOwner, type OwnerBalance } from "./owners.ts";

const rowsMax = 1_000;
const askEveryMs = 5_000;

export function Credits() {
  useTitle("Credits");
  const { value, refusal } = useAsked(
    "credits",
    async () => {
      const [balances, spending, head] = await Promise.all([listBalances(), listSpending(), ledger.getHead({})]);
      return { balances, ...spending, head: head.head };
    },
    askEveryMs,
  );
  if (!value)
    return (
      <Panel id="credits" title="Credits">
        <p className="quiet-text">{refusal || "…"}</p>
      </Panel>
    );
  const owners = byOwner(value.balances);
  return (
    <div className="column">
      <Panel id="credits" title="Earned" aside={owners.length > 0 ? plural(owners.length, "owner") : undefined}>
        {owners.length === 0 ? (
          <Empty
            text="Nobody has earned credits yet: work is paid when its results are final."
            commands={["dcnr credits"]}
          />
        ) : (
          <Table label="Earned by owner" columns={ownerColumns} rows={owners} keyOf={(row) => row.owner} />
        )}
        {value.head && (
          <p className="quiet-text below">
            Head {String(value.head.number)}, signed {date(Number(value.head.wallMs))}, speaks for{" "}
            {plural(Number(value.head.chains), "chain")}. <code>dcnr credits verify</code> checks it offline.
          </p>
        )}
      </Panel>
      {value.spending.length > 0 && (
        <Panel id="spent" title="Spent">
          <Table
            label="Spent by session"
            columns={spendingColumns}
            rows={value.spending}
            keyOf={(row) => row.session}
          />
        </Panel>
      )}
      {value.budgets.length > 0 && (
        <Panel id="budgets" title="Budgets">
          <Table
            label="Budgets by owner"
            columns={[
              { title: "owner", by: (row) => row.owner, cell: (row) => row.owner },
              { title: "spent", align: "right", by: (row) => Number(row.spent), cell: (row) => credits(row.spent) },
              { title: "budget", align: "right", by: (row) => Number(row.budget), cell: (row) => credits(row.budget) },
            ]}
            rows={value.budgets}
            keyOf={(row) => row.owner}
          />
        </Panel>
      )}
    </div>
  );
}

const ownerColumns: readonly Column<OwnerBalance>[] = [
  { title: "owner", by: (row) => row.owner, cell: (row) => row.owner },
  { title: "machines", align: "right", by: (row) => row.machines, cell: (row) => row.machines },
  { title: "earned", align: "right", by: (row) => Number(row.earned), cell: (row) => credits(row.earned) },
  { title: "available", align: "right", by: (row) => Number(row.available), cell: (row) => credits(row.available) },
  { title: "can still be lost", align: "right", by: (row) => Number(row.escrow), cell: (row) => credits(row.escrow) },
  { title: "bond", align: "right", by: (row) => Number(row.bond), cell: (row) => credits(row.bond) },
  { title: "paid out", align: "right", by: (row) => Number(row.outside), cell: (row) => credits(row.outside) },
];

const spendingColumns: readonly Column<Spending>[] = [
  {
    title: "session",
    by: (row) => row.session,
    cell: (row) => <a href={formatAddress({ page: "sessions", item: row.session })}>{row.session}</a>,
  },
  { title: "owner", by: (row) => row.owner, cell: (row) => row.owner },
  { title: "spent", align: "right", by: (row) => Number(row.spent), cell: (row) => credits(row.spent) },
  {
    title: "budget",
    align: "right",
    by: (row) => Number(row.budget),
    cell: (row) => (row.budget > 0n ? credits(row.budget) : "no bound"),
  },
];

function credits(amount: bigint): string {
  return short(Number(amount));
}

async function listBalances(): Promise<readonly Balance[]> {
  const found: Balance[] = [];
  let pageToken = "";
  do {
    const page = await ledger.listBalances({ pageSize: 500, pageToken });
    found.push(...page.balances);
    pageToken = page.nextPageToken;
  } while (pageToken && found.length < rowsMax);
  return found;
}

async function listSpending() {
  const { spending, budgets } = await ledger.listSpending({ pageSize: rowsMax });
  return { spending, budgets };
}
