// One line that is always there: why anything waits, what is wrong, or that all is well. So nothing jumps when it changes.

import { useState } from "react";
import { duration } from "../format.ts";
import { useLive, useLiveParts, useTick } from "../live/hooks.ts";
import type { Connection } from "../live/store.ts";
import { summaryOf } from "../live/summary.ts";

const moreShownMax = 30;

export function Banner() {
  const connection = useLive((state) => state.connection);
  return connection.state === "away" ? <Away connection={connection} /> : <Present />;
}

function Present() {
  const state = useLive((whole) => whole);
  const [open, setOpen] = useState(false);
  const { tone, text, more } = summaryOf(state);
  return (
    <div className="banner" data-tone={tone}>
      <p className="banner-line" role="status">
        <span className="banner-text">{text}</span>
      </p>
      {more.length > 0 && (
        <button type="button" className="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "less" : `${more.length} more`}
        </button>
      )}
      {open && more.length > 0 && (
        <ul className="banner-more">
          {more.slice(0, moreShownMax).map((one) => (
            <li key={one}>{one}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Away({ connection }: { readonly connection: Extract<Connection, { state: "away" }> }) {
  const { follower } = useLiveParts();
  useTick(250);
  const sinceSeconds = (Date.now() - connection.sinceMs) / 1000;
  const inSeconds = Math.max(0, (connection.retryAtMs - Date.now()) / 1000);
  return (
    <div className="banner" data-tone="bad" data-away="">
      <p className="banner-line" role="status">
        <span className="banner-text">
          The orchestrator at {location.host} is away
          <span className="banner-aside">
            {" "}
            ({connection.reason}). You see what was known {duration(sinceSeconds)} ago; PNodes go on by themselves.
          </span>
        </span>
      </p>
      <span className="banner-aside" aria-hidden="true">
        {inSeconds > 0.2 ? `trying again in ${inSeconds.toFixed(1)} s` : "trying …"}
      </span>
      <button type="button" onClick={() => follower.retry()}>
        Try now
      </button>
    </div>
  );
}
