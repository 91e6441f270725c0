// Makes a link with which others lend their machines: what `dcnr invite` does, from the page.

import { type FormEvent, useState } from "react";
import type { KeyId } from "../../src/core/ids.ts";
import { formatInviteLink } from "../../src/protocol/identity/invite-link.ts";
import { areOnlyHere } from "../../src/protocol/routes/address.ts";
import { askForKey } from "../access.ts";
import { membership, sentence } from "../api.ts";
import { date } from "../format.ts";
import { Command } from "../parts/empty.tsx";
import { may, useCaller } from "./rights.ts";

const secondsPerDay = 86_400n;

export function Invite() {
  const caller = useCaller();
  const [uses, setUses] = useState("1");
  const [days, setDays] = useState("7");
  const [note, setNote] = useState("");
  const [made, setMade] = useState<{ readonly command: string; readonly until: string; readonly onlyHere: boolean }>();
  const [error, setError] = useState("");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!may(caller, "admin")) return askForKey();
    setError("");
    try {
      const { token, networkKey, orchestrators, expiresWallMs } = await membership.createInvite({
        uses: Number(uses),
        lifetimeSeconds: BigInt(days) * secondsPerDay,
        note,
      });
      const link = formatInviteLink({ addresses: orchestrators, key: networkKey as KeyId, token, name: "" });
      setMade({
        command: `dcnr join '${link}'`,
        until: date(Number(expiresWallMs)),
        onlyHere: areOnlyHere(orchestrators),
      });
    } catch (thrown) {
      setError(sentence(thrown));
    }
  };
  return (
    <form className="invite" aria-label="Invite machines" onSubmit={submit}>
      <label>
        <span className="label">Machines</span>
        <input
          type="number"
          min={1}
          max={1_000_000}
          required
          value={uses}
          onChange={(event) => setUses(event.target.value)}
        />
      </label>
      <label>
        <span className="label">Days</span>
        <input
          type="number"
          min={1}
          max={365}
          required
          value={days}
          onChange={(event) => setDays(event.target.value)}
        />
      </label>
      <label className="invite-note">
        <span className="label">For whom</span>
        <input type="text" maxLength={200} value={note} onChange={(event) => setNote(event.target.value)} />
      </label>
      <button type="submit" className="primary">
        Make a link
      </button>
      {made && (
        <div className="invite-made" role="status">
          <p>Give this to them and to nobody else; it is good until {made.until}:</p>
          <Command command={made.command} />
          {made.onlyHere && (
            <p>
              Only this machine reaches the orchestrator: others can use the link once it was started with{" "}
              <code>--listen 0.0.0.0:7700</code>.
            </p>
          )}
        </div>
      )}
      {error && (
        <p className="error" role="alert">
          {error}
        </p>
      )}
    </form>
  );
}
