// The top of the page: what this is, how much of it there is, whether it is live.

import { bytes, plural } from "../format.ts";
import { useLive } from "../live/hooks.ts";
import { ThemeButton } from "./theme.tsx";

const states = { connecting: "connecting", live: "live", resting: "resting", away: "away" } as const;

export function Header() {
  const totals = useLive((state) => state.totals);
  const known = useLive((state) => state.known);
  const connection = useLive((state) => state.connection.state);
  const facts = [
    plural(totals.pnodesOnline, "PNode"),
    totals.pnodesLost > 0 ? `${totals.pnodesLost} lost` : "",
    totals.cores > 0 ? plural(totals.cores, "core") : "",
    totals.gpus > 0 ? plural(totals.gpus, "GPU") : "",
    totals.memoryBytes > 0 ? bytes(totals.memoryBytes) : "",
    totals.orchestrators > 1 ? plural(totals.orchestrators, "orchestrator") : "",
  ].filter(Boolean);
  return (
    <header className="top">
      <h1>
        <Mark />
        DCNR
      </h1>
      <p className="facts">
        {known &&
          facts.map((fact) => (
            <span key={fact} className={fact.endsWith("lost") ? "fact-bad" : ""}>
              {fact}
            </span>
          ))}
      </p>
      <span className="connection" data-state={connection}>
        {states[connection]}
      </span>
      <ThemeButton />
    </header>
  );
}

function Mark() {
  return (
    <svg className="mark" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M7 8 L16 16 L7 24 M16 16 H26" />
      <circle cx="7" cy="8" r="4" />
      <circle cx="7" cy="24" r="4" />
      <circle cx="16" cy="16" r="4" />
      <circle cx="26" cy="16" r="4" />
    </svg>
  );
}
