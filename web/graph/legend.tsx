// What the graph's colours mean: each machine with how much of the session it has; a press looks for what it hosts.

import { useState } from "react";
import { hostStyle } from "../colours.ts";
import { useLive } from "../live/hooks.ts";
import type { State } from "../live/store.ts";

const shownMax = 8;

interface LegendProps {
  readonly session: string;
  readonly query: string;
  readonly onSeek: (query: string) => void;
}

export function Legend({ session, query, onSeek }: LegendProps) {
  const counted = useLive((state) => hostCounts(state, session));
  const [all, setAll] = useState(false);
  const rows = counted === "" ? [] : counted.split("\n").map((row) => row.split("\t") as [string, string, string]);
  const shown = all ? rows : rows.slice(0, shownMax);
  return (
    <ul className="graph-legend" aria-label="What the colours mean">
      {shown.map(([id, name, amount]) => (
        <li key={id}>
          <button
            type="button"
            className="quiet hosted"
            aria-pressed={query === name}
            onClick={() => onSeek(query === name ? "" : name)}
            style={hostStyle(id)}
          >
            <span className="swatch" aria-hidden="true" />
            {name} <small>{amount}</small>
          </button>
        </li>
      ))}
      {rows.length > shown.length && (
        <li>
          <button type="button" className="quiet" onClick={() => setAll(true)}>
            and {rows.length - shown.length} more
          </button>
        </li>
      )}
      <li className="legend-sign">
        <span className="sign sign-lost" aria-hidden="true" /> lost
      </li>
      <li className="legend-sign">
        <span className="sign sign-unplaced" aria-hidden="true" /> no host yet
      </li>
      <li className="legend-sign">
        <span className="sign sign-tie" aria-hidden="true" /> shared weights
      </li>
    </ul>
  );
}

/** Id, name, VNodes of each host, the most first; one string, which compares by value. */
function hostCounts({ placements, names }: State, session: string): string {
  const counts = new Map<string, number>();
  for (const { session: whose, pnode } of placements.values())
    if (whose === session && pnode) counts.set(pnode, (counts.get(pnode) ?? 0) + 1);
  return Array.from(counts)
    .sort(([a, first], [b, second]) => second - first || a.localeCompare(b))
    .map(([id, amount]) => `${id}\t${(names.get(id) ?? id).replace(/\s/g, " ")}\t${amount}`)
    .join("\n");
}
