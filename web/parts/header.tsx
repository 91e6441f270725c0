// The top of the page: what this is, the way to the other pages, how much of it there is, whether it is live.

import { askForKey, giveKey, useKey } from "../access.ts";
import { useCaller } from "../actions/rights.ts";
import { bytes, plural } from "../format.ts";
import { useLive } from "../live/hooks.ts";
import { pages } from "../pages.tsx";
import { formatAddress } from "../place/address.ts";
import { ThemeButton } from "./theme.tsx";

const states = { connecting: "connecting", live: "live", resting: "resting", away: "away" } as const;

export function Header({ path }: { readonly path: string | undefined }) {
  const connection = useLive((state) => state.connection.state);
  return (
    <header className="top">
      <h1>
        <Mark />
        DCNR
      </h1>
      <nav aria-label="Pages">
        {pages.map((page) => (
          <a
            key={page.path}
            href={formatAddress({ page: page.path, item: "" })}
            aria-current={page.path === path ? "page" : undefined}
          >
            {page.title}
          </a>
        ))}
      </nav>
      <Facts />
      <KeyState />
      <span className="connection" data-state={connection}>
        {states[connection]}
      </span>
      <ThemeButton />
    </header>
  );
}

function Facts() {
  const totals = useLive((state) => state.totals);
  const known = useLive((state) => state.known);
  const facts = [
    plural(totals.pnodesOnline, "PNode"),
    totals.cores > 0 ? plural(totals.cores, "core") : "",
    totals.gpus > 0 ? plural(totals.gpus, "GPU") : "",
    totals.memoryBytes > 0 ? bytes(totals.memoryBytes) : "",
    totals.orchestrators > 1 ? plural(totals.orchestrators, "orchestrator") : "",
  ].filter(Boolean);
  return <p className="facts">{known && facts.map((fact) => <span key={fact}>{fact}</span>)}</p>;
}

/** Whoever may do everything here needs no key and sees nothing of it. */
function KeyState() {
  const caller = useCaller();
  const key = useKey();
  if (!key && (caller === undefined || caller.scopes.has("admin"))) return null;
  if (!key)
    return (
      <button type="button" className="quiet" onClick={askForKey} title="You may look; changes need a key">
        Use a key
      </button>
    );
  const rights = caller ? Array.from(caller.scopes).join(", ") || "nothing" : "…";
  return (
    <button
      type="button"
      className="quiet"
      onClick={() => giveKey("")}
      title={caller?.refusal || `The key of ${caller?.owner || "nobody"} is good for: ${rights}. Press to forget it`}
    >
      Forget key
    </button>
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
