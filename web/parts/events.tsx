// The event log, the newest first, with filters by level, kind and text.

import { memo, useMemo, useState } from "react";
import { clock, count } from "../format.ts";
import { useLive } from "../live/hooks.ts";
import { named } from "../live/summary.ts";
import type { EventView } from "../live/views.ts";
import { Empty } from "./empty.tsx";
import { type EventFilter, filtered, type Level, levelNames, levels } from "./event-filter.ts";
import { Panel } from "./panel.tsx";

const pageSize = 100;
export function Events() {
  const events = useLive((state) => state.events);
  const names = useLive((state) => state.names);
  const [filter, setFilter] = useState<EventFilter>({ level: "all", kind: "", text: "" });
  const [pages, setPages] = useState(1);
  const kinds = useMemo(
    () => Array.from(new Set(events.map((event) => event.kind.split(".")[0] ?? ""))).sort(),
    [events],
  );
  const matching = useMemo(() => filtered(events, filter), [events, filter]);
  const shown = matching.slice(0, pages * pageSize);
  return (
    <Panel id="events" title="Events" aside={events.length > 0 ? count(matching.length) : undefined}>
      <div className="filters">
        <select
          aria-label="Level"
          value={filter.level}
          onChange={(event) => setFilter({ ...filter, level: event.target.value as Level })}
        >
          {levels.map((level) => (
            <option key={level} value={level}>
              {levelNames[level]}
            </option>
          ))}
        </select>
        <select
          aria-label="Kind"
          value={filter.kind}
          onChange={(event) => setFilter({ ...filter, kind: event.target.value })}
        >
          <option value="">all kinds</option>
          {kinds.map((kind) => (
            <option key={kind}>{kind}</option>
          ))}
        </select>
        <input
          type="search"
          aria-label="Text in events"
          placeholder="Find"
          value={filter.text}
          onChange={(event) => setFilter({ ...filter, text: event.target.value })}
        />
      </div>
      {matching.length === 0 ? (
        <Empty text={events.length === 0 ? "Nothing has happened yet." : "No event is like that."} />
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        <ol className="events" tabIndex={0} aria-label="Events, the newest first">
          {shown.map((event) => (
            <EventRow key={event.key} event={event} message={named(event.message, { names })} />
          ))}
          {matching.length > shown.length && (
            <li>
              <button type="button" className="quiet" onClick={() => setPages(pages + 1)}>
                show older
              </button>
            </li>
          )}
        </ol>
      )}
    </Panel>
  );
}

const EventRow = memo(function EventRow({ event, message }: { readonly event: EventView; readonly message: string }) {
  return (
    <li className="event" data-level={event.level} data-kind={event.kind}>
      <time dateTime={new Date(event.wallMs).toISOString()}>{clock(event.wallMs)}</time>
      <span className="event-kind">{event.kind}</span>
      <span className="event-message">{message}</span>
    </li>
  );
});
