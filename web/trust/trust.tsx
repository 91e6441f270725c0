// Trust: what was checked of each machine and why it is trusted or not, how far each session is final and who recomputed that, and what was
// found wrong, with the command that repeats it.

import type { Model } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import type { Session } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import type { GetAssuranceResponse, MachineStanding } from "../../src/protocol/gen/dcnr/v1/trust_pb.ts";
import { inference, isMissing, sessions, trust } from "../api.ts";
import { count, date, percent, plural } from "../format.ts";
import { useAsked } from "../live/asked.ts";
import { Command, Empty, orchestratorFlag } from "../parts/empty.tsx";
import { Panel } from "../parts/panel.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { formatAddress } from "../place/address.ts";
import { useTitle } from "../place/use-address.ts";
import {
  type CheckedSession,
  type Conviction,
  convictions,
  type OpenAudit,
  openAudits,
  recomputedShare,
  worstFirst,
} from "./found.ts";

const askEveryMs = 5_000;
const sessionsMax = 1_000;
/** Sessions are asked about one by one: the newest that are checked. */
const assuredMax = 30;

export function Trust() {
  useTitle("Trust");
  const { value, refusal } = useAsked(
    "trust",
    async () => {
      const [{ standings }, checked, { models }] = await Promise.all([
        trust.listStandings({}),
        listChecked(),
        inference.listModels({}),
      ]);
      return { standings: worstFirst(standings), checked, served: models.filter(({ checks }) => checks !== undefined) };
    },
    askEveryMs,
  );
  if (!value)
    return (
      <Panel id="trust" title="Trust">
        <p className="quiet-text">{refusal || "…"}</p>
      </Panel>
    );
  const { standings, checked, served } = value;
  const found = convictions(standings);
  const audits = openAudits(checked);
  return (
    <div className="column">
      <Panel id="trust" title="Machines" aside={standings.length > 0 ? plural(standings.length, "machine") : undefined}>
        {standings.length === 0 ? (
          <Empty text="No machine has joined yet, so there is nobody to check." />
        ) : (
          <Table
            label="What is known of machines"
            columns={machineColumns}
            rows={standings}
            keyOf={(row) => row.pnode}
          />
        )}
      </Panel>
      <Panel id="convictions" title="Found wrong" aside={found.length > 0 ? count(found.length) : undefined}>
        {found.length === 0 ? (
          <p className="quiet-text">Nobody was found wrong. What machines compute is checked as sessions ask for it.</p>
        ) : (
          <Table label="What was found wrong" columns={convictionColumns} rows={found} keyOf={(row) => row.key} />
        )}
      </Panel>
      <Panel id="assurance" title="Sessions">
        {checked.length === 0 ? (
          <Empty
            text="No session yet. One whose results are checked:"
            commands={[`dcnr train gpt-demo --dataset moby-dick --steps 2000 --assurance sampled${orchestratorFlag()}`]}
          />
        ) : (
          <Table
            label="How far sessions are final"
            columns={sessionColumns}
            rows={checked}
            keyOf={({ session }) => session.id}
          />
        )}
      </Panel>
      {served.length > 0 && (
        <Panel id="answers" title="Served models" aside={plural(served.length, "model")}>
          <Table label="What was repeated of answers" columns={modelColumns} rows={served} keyOf={({ name }) => name} />
        </Panel>
      )}
      {audits.length > 0 && (
        <Panel id="audits" title="Being checked" aside={plural(audits.length, "interval")}>
          <Table
            label="What is being checked"
            columns={auditColumns}
            rows={audits}
            keyOf={({ session, vnode, from }) => `${session}/${vnode}/${from}`}
          />
        </Panel>
      )}
    </div>
  );
}

const machineColumns: readonly Column<MachineStanding>[] = [
  { title: "machine", by: (row) => row.name, cell: (row) => <span title={row.pnode}>{row.name || row.pnode}</span> },
  {
    title: "standing",
    by: (row) => row.standing,
    cell: (row) => (
      <span className="status" data-status={row.standing}>
        {row.standing}
      </span>
    ),
  },
  { title: "why", cell: (row) => <span className="why">{reasonOf(row)}</span> },
  {
    title: "intervals checked",
    align: "right",
    by: (row) => Number(row.audited),
    cell: (row) => count(Number(row.audited)),
  },
  { title: "of the next ones", align: "right", by: (row) => row.rate, cell: (row) => percent(row.rate) },
  {
    title: "last check",
    by: (row) => Number(row.lastAuditWallMs),
    cell: (row) => (
      <span className="why">{row.lastAudit ? `${date(Number(row.lastAuditWallMs))}: ${row.lastAudit}` : "never"}</span>
    ),
  },
  {
    title: "checked for others",
    align: "right",
    by: (row) => Number(row.auditsDone),
    cell: (row) => count(Number(row.auditsDone)),
  },
];

function reasonOf({ reason, excludedClasses }: MachineStanding): string {
  return excludedClasses.length === 0 ? reason : `${reason}; gets no work of class ${excludedClasses.join(", ")}`;
}

const convictionColumns: readonly Column<Conviction>[] = [
  { title: "when", by: (row) => Number(row.wallMs), cell: (row) => date(Number(row.wallMs)) },
  { title: "machine", by: (row) => row.machine, cell: (row) => row.machine },
  { title: "kind", by: (row) => row.kind, cell: (row) => row.kind },
  { title: "what happened", cell: (row) => <span className="why">{row.story}</span> },
  { title: "repeat it", cell: (row) => row.command && <Command command={row.command} /> },
];

const countOf = (of: "right" | "wrong" | "unchecked" | "canaries") => ({
  align: "right" as const,
  by: ({ checks }: Model) => Number(checks?.[of] ?? 0n),
  cell: ({ checks }: Model) => count(Number(checks?.[of] ?? 0n)),
});

const modelColumns: readonly Column<Model>[] = [
  { title: "model", by: ({ name }) => name, cell: ({ name }) => name },
  { title: "answers found right", ...countOf("right") },
  { title: "wrong", ...countOf("wrong") },
  { title: "nobody could repeat", ...countOf("unchecked") },
  { title: "the network's own questions", ...countOf("canaries") },
  {
    title: "last check",
    by: ({ checks }) => Number(checks?.lastWallMs ?? 0n),
    cell: ({ checks }) => (
      <span className="why">{checks?.last ? `${date(Number(checks.lastWallMs))}: ${checks.last}` : "never"}</span>
    ),
  },
];

const sessionColumns: readonly Column<CheckedSession>[] = [
  { title: "session", by: ({ session }) => session.id, cell: ({ session }) => <SessionLink id={session.id} /> },
  { title: "assurance", by: assuranceOf, cell: assuranceOf },
  {
    title: "final",
    align: "right",
    by: ({ session }) => Number(session.final),
    cell: ({ session }) => `${count(Number(session.final))} of ${count(Number(session.totalSteps))}`,
  },
  {
    title: "recomputed",
    align: "right",
    by: ({ assured }) => (assured && recomputedShare(assured)) ?? -1,
    cell: ({ assured }) => {
      const share = assured && recomputedShare(assured);
      return share === undefined ? "–" : percent(share);
    },
  },
  {
    title: "certificate",
    cell: ({ session, assured }) => (
      <span className="why" title={assured?.finalRoot ? `step root ${assured.finalRoot}` : undefined}>
        {session.certificate || "results of this session are not checked"}
      </span>
    ),
  },
];

function assuranceOf({ session }: CheckedSession): string {
  return session.settings?.assurance || "none";
}

const auditColumns: readonly Column<OpenAudit>[] = [
  { title: "session", by: (row) => row.session, cell: (row) => <SessionLink id={row.session} /> },
  { title: "VNode", by: (row) => row.vnode, cell: (row) => row.vnode },
  { title: "steps", by: (row) => Number(row.from), cell: (row) => `${row.from} to ${row.to}` },
  { title: "computed by", by: (row) => row.owner, cell: (row) => row.owner },
  { title: "status", by: (row) => row.status, cell: (row) => <span className="why">{row.status}</span> },
  { title: "repeated by", cell: (row) => row.auditors.join(", ") || "nobody yet" },
  { title: "by hand", cell: (row) => <Command command={row.command} /> },
];

function SessionLink({ id }: { readonly id: string }) {
  return <a href={formatAddress({ page: "sessions", item: id })}>{id}</a>;
}

async function listChecked(): Promise<readonly CheckedSession[]> {
  const found: Session[] = [];
  let pageToken = "";
  do {
    const page = await sessions.listSessions({ pageSize: 200, pageToken });
    found.push(...page.sessions);
    pageToken = page.nextPageToken;
  } while (pageToken && found.length < sessionsMax);
  found.sort((a, b) => Number(b.createdWallMs - a.createdWallMs));
  const asked = found.filter(({ certificate }) => certificate !== "").slice(0, assuredMax);
  const assured = new Map(await Promise.all(asked.map(async ({ id }) => [id, await assuranceNow(id)] as const)));
  return found.map((session) => ({ session, assured: assured.get(session.id) }));
}

/** Undefined for one that was deleted meanwhile. */
async function assuranceNow(session: string): Promise<GetAssuranceResponse | undefined> {
  try {
    return await trust.getAssurance({ session });
  } catch (thrown) {
    if (isMissing(thrown)) return undefined;
    throw thrown;
  }
}
