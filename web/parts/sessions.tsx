// Training sessions: how far each is, and the buttons that start, suspend and resume it.

import { memo, useState } from "react";
import { sessions as api, sentence } from "../api.ts";
import { count, duration, loss, percent, rate } from "../format.ts";
import { isUnderWay, useLive } from "../live/hooks.ts";
import { named } from "../live/summary.ts";
import type { SessionView } from "../live/views.ts";
import { Empty, orchestratorFlag } from "./empty.tsx";
import { Panel } from "./panel.tsx";

const shownMax = 20;

interface SessionsProps {
  readonly ids: readonly string[];
  readonly selected: string;
  readonly onSelect: (id: string) => void;
}

export function Sessions({ ids, selected, onSelect }: SessionsProps) {
  const [all, setAll] = useState(false);
  const shown = all ? ids : ids.slice(0, shownMax);
  return (
    <Panel id="sessions" title="Sessions" aside={ids.length > 0 ? count(ids.length) : undefined}>
      {ids.length === 0 ? (
        <Empty
          text="No training yet. Create a network and train it:"
          commands={[
            `dcnr network create examples/mlp.yaml${orchestratorFlag()}`,
            `dcnr train mlp --dataset mnist${orchestratorFlag()}`,
          ]}
        />
      ) : (
        <ul className="sessions">
          {shown.map((id) => (
            <SessionRow key={id} id={id} selected={id === selected} onSelect={onSelect} />
          ))}
        </ul>
      )}
      {ids.length > shown.length && (
        <button type="button" className="quiet" onClick={() => setAll(true)}>
          show all {ids.length}
        </button>
      )}
    </Panel>
  );
}

interface RowProps {
  readonly id: string;
  readonly selected: boolean;
  readonly onSelect: (id: string) => void;
}

const SessionRow = memo(function SessionRow({ id, selected, onSelect }: RowProps) {
  const session = useLive((state) => state.sessions.get(id));
  const reason = useLive((state) => named(state.sessions.get(id)?.reason ?? "", state));
  if (!session) return null;
  const share = session.totalSteps > 0 ? session.step / session.totalSteps : 0;
  return (
    <li className="session" data-status={session.status} data-session={id} data-selected={selected || undefined}>
      <div className="session-head">
        <button
          type="button"
          className="session-name"
          aria-pressed={selected}
          onClick={() => onSelect(id)}
          title={`Session ${id}: show its graph and curves`}
        >
          {session.network} <small>on {session.dataset}</small>
        </button>
        <span className="status" data-status={session.status}>
          {session.status}
        </span>
        <SessionButton session={session} />
      </div>
      <progress value={session.step} max={Math.max(1, session.totalSteps)} aria-label={`Progress of ${id}`} />
      <p className="session-numbers">
        <span>
          {count(session.step)} / {count(session.totalSteps)} <small>{percent(share)}</small>
        </span>
        <span>{session.loss === 0 ? "" : `loss ${loss(session.loss)}`}</span>
        <span>{session.status === "running" ? timeLeft(session) : ""}</span>
        {session.validationAccuracy > 0 && <span>{percent(session.validationAccuracy)} right</span>}
      </p>
      {selected && (
        <p
          className="session-identity"
          title={session.stepRoot ? `Step root at ${session.line}: ${session.stepRoot}` : ""}
        >
          {id} · safe to step {count(session.line)}
          {session.stepRoot && ` · root ${session.stepRoot.slice(0, 10)}`}
        </p>
      )}
      {reason && <p className="session-reason">{reason}</p>}
    </li>
  );
});

function timeLeft({ step, totalSteps, samplesPerSecond, batch }: SessionView): string {
  if (samplesPerSecond <= 0) return "";
  return `${rate(samplesPerSecond)}/s · ${duration(((totalSteps - step) * batch) / samplesPerSecond)} left`;
}

function SessionButton({ session }: { readonly session: SessionView }) {
  const [pending, setPending] = useState(false);
  const [error, setError] = useState("");
  const action = isUnderWay(session.status)
    ? { name: "Suspend", call: () => api.suspendSession({ id: session.id }) }
    : session.status === "suspended"
      ? { name: "Resume", call: () => api.startSession({ id: session.id }) }
      : session.status === "created"
        ? { name: "Start", call: () => api.startSession({ id: session.id }) }
        : undefined;
  if (!action) return null;
  const act = async () => {
    setPending(true);
    setError("");
    try {
      await action.call();
    } catch (thrown) {
      setError(sentence(thrown));
    }
    setPending(false);
  };
  return (
    <>
      <button type="button" disabled={pending} onClick={act} aria-label={`${action.name} session ${session.id}`}>
        {pending ? "…" : action.name}
      </button>
      {error && (
        <p className="error" role="alert">
          {error}
        </p>
      )}
    </>
  );
}
