// The machines: what each is, does, and how far it can be relied on.

import { memo, useMemo, useState } from "react";
import { ActionButton } from "../actions/action-button.tsx";
import { Invite } from "../actions/invite.tsx";
import { membership } from "../api.ts";
import { hostStyle } from "../colours.ts";
import { bytes, count, duration, percent, plural } from "../format.ts";
import { isUnderWay, useLive } from "../live/hooks.ts";
import type { State } from "../live/store.ts";
import type { EventView, PNodeView } from "../live/views.ts";
import { Empty } from "./empty.tsx";
import { Panel } from "./panel.tsx";

/** Others that call such an address call themselves. */
const isLoopback = /^(127\.|localhost$|\[::1\]$)/.test(location.hostname);
/** "machine-2" before "machine-10". */
const naming = new Intl.Collator("en", { numeric: true });
const hostedShownMax = 6;
/** More are a click or a search away. */
const shownMax = 48;
/** Whoever was lost this long ago steps back: something is to be seen of a loss, not for ever. */
const shownAfterLossMs = 600_000;

export function PNodes() {
  const pnodes = useLive((state) => state.pnodes);
  const [query, setQuery] = useState("");
  const [all, setAll] = useState(false);
  const [inviting, setInviting] = useState(false);
  // A button on each card would stand in everybody's way, and under the fingers of some.
  const [managing, setManaging] = useState(false);
  const events = useLive((state) => state.events);
  const lostAt = useMemo(() => lossTimes(events), [events]);
  const { here, gone } = sortedIds(pnodes, query.trim().toLowerCase(), lostAt);
  const online = Array.from(pnodes.values()).filter((pnode) => pnode.status === "online").length;
  return (
    <Panel
      id="pnodes"
      title="PNodes"
      aside={pnodes.size > 0 ? `${online} of ${pnodes.size} online` : undefined}
      actions={
        <>
          {pnodes.size > 8 && (
            <input
              type="search"
              value={query}
              onChange={(event) => setQuery(event.target.value)}
              placeholder="Find"
              aria-label="Find a PNode by name, status or hardware"
            />
          )}
          {here.length > 0 && (
            <button type="button" aria-pressed={managing} onClick={() => setManaging(!managing)}>
              {managing ? "Done" : "Manage"}
            </button>
          )}
          <button type="button" aria-expanded={inviting} onClick={() => setInviting(!inviting)}>
            {inviting ? "Close" : "Invite"}
          </button>
        </>
      }
    >
      {inviting && <Invite />}
      {pnodes.size === 0 && !inviting && (
        <Empty
          text={`No machine lends itself yet. On ${isLoopback ? "this" : "any"} machine:`}
          commands={[`dcnr join ${location.host}`]}
        />
      )}
      {here.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        <ul className="cards" tabIndex={0} aria-label="PNodes">
          {(all ? here : here.slice(0, shownMax)).map((id) => (
            <PNodeCard key={id} id={id} managing={managing} />
          ))}
          {!all && here.length > shownMax && (
            <li>
              <button type="button" onClick={() => setAll(true)}>
                Show all {count(here.length)}
              </button>
            </li>
          )}
        </ul>
      )}
      {gone.length > 0 && (
        <details className="stepped-back">
          <summary>{plural(gone.length, "machine")} gone</summary>
          <ul className="gone">
            {gone.map((id) => (
              <GoneRow key={id} id={id} />
            ))}
          </ul>
        </details>
      )}
    </Panel>
  );
}

/** By name: an order that does not change with what happens to machines. Those that are gone step back. */
function sortedIds(pnodes: ReadonlyMap<string, PNodeView>, query: string, lostAt: ReadonlyMap<string, number>) {
  const sorted = Array.from(pnodes.values())
    .filter((one) => !query || `${one.name} ${one.status} ${one.hardware} ${one.region}`.toLowerCase().includes(query))
    .sort((a, b) => naming.compare(a.name, b.name) || a.id.localeCompare(b.id));
  const nowMs = Date.now();
  const ids = (isGone: boolean) =>
    sorted.filter((one) => stepsBack(one.status, lostAt.get(one.id), nowMs) === isGone).map((one) => one.id);
  return { here: ids(false), gone: ids(true) };
}

/** When each PNode was last lost, as far as events tell. */
function lossTimes(events: readonly EventView[]): ReadonlyMap<string, number> {
  return new Map(events.filter(({ kind }) => kind === "pnode.lost").map(({ pnode, wallMs }) => [pnode, wallMs]));
}

export function stepsBack(status: string, lostAtMs: number | undefined, nowMs: number): boolean {
  return status === "left" || (status === "lost" && nowMs - (lostAtMs ?? 0) > shownAfterLossMs);
}

function GoneRow({ id }: { readonly id: string }) {
  const pnode = useLive((state) => state.pnodes.get(id));
  if (!pnode) return null;
  return (
    <li data-pnode={pnode.name} data-status={pnode.status}>
      <strong title={id}>{pnode.name}</strong>
      <small>{[pnode.status, pnode.detail].filter(Boolean).join(": ")}</small>
      <ActionButton
        quiet
        name="Forget"
        label={`Forget PNode ${pnode.name}`}
        scope="admin"
        confirm="Its record goes; if it comes back it is new."
        act={() => membership.forgetPNode({ pnode: id })}
      />
    </li>
  );
}

interface CardProps {
  readonly id: string;
  readonly managing: boolean;
}

const PNodeCard = memo(function PNodeCard({ id, managing }: CardProps) {
  const pnode = useLive((state) => state.pnodes.get(id));
  const hosted = useLive((state) => hostedNames(state, id));
  if (!pnode) return null;
  const names = hosted === "" ? [] : hosted.split("\n");
  // Sessions say what they put here; the rest of what it hosts answers prompts.
  const served = pnode.status === "online" ? Math.max(0, pnode.vnodes - names.length) : 0;
  const note = pnode.warning || (pnode.status === "online" ? "" : pnode.detail);
  return (
    <li className="card hosted" data-status={pnode.status} data-pnode={pnode.name} style={hostStyle(id)}>
      <div className="card-head">
        <span className="swatch" aria-hidden="true" />
        <strong title={pnode.id}>{pnode.name}</strong>
        <span className="status" data-status={pnode.drained ? "leaving" : pnode.status}>
          {pnode.drained && pnode.status === "online" ? "drained" : pnode.status}
        </span>
        {managing && pnode.status === "online" && <DrainButton pnode={pnode} />}
      </div>
      <p className="card-hardware" title={pnode.hardware}>
        {pnode.hardware}
      </p>
      <Meter label="Load" share={pnode.load} text={percent(pnode.load)} />
      <Meter
        label="Memory"
        share={pnode.memoryBytes > 0 ? pnode.memoryUsedBytes / pnode.memoryBytes : 0}
        text={bytes(pnode.memoryUsedBytes)}
      />
      <dl className="card-facts">
        <Fact name="Lends" value={`${plural(pnode.cores, "core")}, ${bytes(pnode.memoryBytes)}`} />
        <Fact name="Reliability" value={reliability(pnode)} />
        {pnode.temperature > 0 && <Fact name="Temperature" value={`${pnode.temperature} °C`} />}
        {pnode.region && <Fact name="Region" value={pnode.region} />}
      </dl>
      <p className="card-hosts">
        {names.length + served === 0 ? <small>hosts nothing</small> : null}
        {names.slice(0, hostedShownMax).map((name) => (
          <span key={name} className="chip">
            {name}
          </span>
        ))}
        {names.length > hostedShownMax && <small>and {count(names.length - hostedShownMax)} more</small>}
        {served > 0 && <small>{plural(served, "VNode")} of served models</small>}
      </p>
      {note && <p className="card-note">{note}</p>}
    </li>
  );
});

function DrainButton({ pnode }: { readonly pnode: PNodeView }) {
  const { id: pnodeId, name, drained } = pnode;
  const act = () => membership.drainPNode({ pnode: pnodeId, undo: drained });
  return drained ? (
    <ActionButton quiet name="Use" label={`Use PNode ${name} again`} scope="admin" act={act} />
  ) : (
    <ActionButton
      quiet
      name="Drain"
      label={`Drain PNode ${name}`}
      scope="admin"
      confirm="What it hosts goes elsewhere, and it gets nothing more."
      act={act}
    />
  );
}

let counted: { vnodes?: State["vnodes"]; sessions?: State["sessions"]; byHost: Map<string, string> } = {
  byHost: new Map(),
};

/** What sessions under way have put on a PNode: one string, which compares by value, counted once for all cards. */
function hostedNames({ vnodes, sessions }: State, pnode: string): string {
  if (counted.vnodes !== vnodes || counted.sessions !== sessions) {
    const lists = new Map<string, Set<string>>();
    for (const { pnode: host, id, session, phase } of vnodes.values()) {
      if (!host || phase === "done" || !isUnderWay(sessions.get(session)?.status)) continue;
      lists.set(host, (lists.get(host) ?? new Set()).add(id));
    }
    const byHost = new Map(Array.from(lists, ([host, ids]) => [host, Array.from(ids).join("\n")]));
    counted = { vnodes, sessions, byHost };
  }
  return counted.byHost.get(pnode) ?? "";
}

function reliability({ reliability: share, failures, uptimeSeconds }: PNodeView): string {
  const failed = failures > 0 ? `, ${plural(failures, "failure")}` : "";
  return `${percent(share)}${failed}${uptimeSeconds >= 60 ? `, up ${duration(uptimeSeconds)}` : ""}`;
}

function Fact({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Meter({ label, share, text }: { readonly label: string; readonly share: number; readonly text: string }) {
  return (
    <div className="meter">
      <span className="label">{label}</span>
      <span className="meter-track" aria-hidden="true">
        <span className="meter-fill" style={{ transform: `scaleX(${Math.min(1, Math.max(0, share))})` }} />
      </span>
      <span className="meter-text">{text}</span>
    </div>
  );
}
