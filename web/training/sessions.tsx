// Training sessions: how far each is, and what can be done with it. Those that are over step back behind a line.

import { memo, useMemo, useState } from "react";
import { ActionButton } from "../actions/action-button.tsx";
import { sessions as api, inference } from "../api.ts";
import { count, duration, loss, percent, plural, rate } from "../format.ts";
import { isUnderWay, useLive } from "../live/hooks.ts";
import { named } from "../live/summary.ts";
import type { SessionView } from "../live/views.ts";
import { Empty, orchestratorFlag } from "../parts/empty.tsx";
import { Panel } from "../parts/panel.tsx";
import { formatAddress } from "../place/address.ts";
import { NewTraining } from "./new-training.tsx";
import { stepsBack } from "./order.ts";

const shownMax = 20;

interface SessionsProps {
  readonly ids: readonly string[];
  readonly selected: string;
}

export function Sessions({ ids, selected }: SessionsProps) {
  const known = useLive((state) => state.known);
  const isHere = useLive((state) => state.sessions.has(selected));
  const over = useLive((state) => ids.filter((id) => stepsBack(state.sessions.get(id), selected)).join("\n"));
  const finished = useMemo(() => new Set(over === "" ? [] : over.split("\n")), [over]);
  const [training, setTraining] = useState(false);
  const [all, setAll] = useState(false);
  const current = ids.filter((id) => !finished.has(id));
  const shown = all ? current : current.slice(0, shownMax);
  return (
    <Panel
      id="sessions"
      title="Sessions"
      aside={
        ids.length > 0 ? <a href={formatAddress({ page: "runs", item: "" })}>compare {count(ids.length)}</a> : undefined
      }
      actions={
        <button type="button" aria-expanded={training} onClick={() => setTraining(!training)}>
          {training ? "Close" : "New"}
        </button>
      }
    >
      {training && <NewTraining from={selected} onDone={() => setTraining(false)} />}
      {known && selected !== "" && !isHere && (
        <p className="session-reason">
          There is no session {selected} here (any more).{" "}
          <a href={formatAddress({ page: "", item: "" })}>Show the newest</a>
        </p>
      )}
      {ids.length === 0 && !training && (
        <Empty
          text="No training yet. Create a network and train it:"
          commands={[
            `dcnr network create examples/mlp.yaml${orchestratorFlag()}`,
            `dcnr train mlp --dataset mnist${orchestratorFlag()}`,
          ]}
        />
      )}
      {shown.length > 0 && (
        <ul className="sessions">
          {shown.map((id) => (
            <SessionRow key={id} id={id} selected={id === selected} />
          ))}
        </ul>
      )}
      {current.length > shown.length && (
        <button type="button" className="quiet" onClick={() => setAll(true)}>
          show all {current.length}
        </button>
      )}
      {finished.size > 0 && (
        <details className="stepped-back">
          <summary>{plural(finished.size, "session")} over</summary>
          <ul className="sessions">
            {Array.from(finished, (id) => (
              <SessionRow key={id} id={id} selected={false} />
            ))}
          </ul>
        </details>
      )}
    </Panel>
  );
}

interface RowProps {
  readonly id: string;
  readonly selected: boolean;
}

const SessionRow = memo(function SessionRow({ id, selected }: RowProps) {
  const session = useLive((state) => state.sessions.get(id));
  const reason = useLive((state) => named(state.sessions.get(id)?.reason ?? "", state));
  if (!session) return null;
  const share = session.totalSteps > 0 ? session.step / session.totalSteps : 0;
  return (
    <li className="session" data-session={id} data-status={session.status} data-selected={selected || undefined}>
      <div className="session-head">
        <a
          className="session-name"
          aria-current={selected ? "true" : undefined}
          href={formatAddress({ page: "sessions", item: id })}
          title={`Session ${id}: show its graph and curves`}
        >
          {session.network} <small>on {session.dataset}</small>
        </a>
        <span className="status" data-status={session.status}>
          {session.status}
        </span>
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
      <SessionButtons session={session} selected={selected} />
    </li>
  );
});

function timeLeft({ step, totalSteps, samplesPerSecond, stepsPerSecond }: SessionView): string {
  if (stepsPerSecond <= 0) return "";
  return `${rate(samplesPerSecond)}/s · ${duration((totalSteps - step) / stepsPerSecond)} left`;
}

function SessionButtons({ session, selected }: { readonly session: SessionView; readonly selected: boolean }) {
  const { id, status } = session;
  const button = (name: string, act: () => Promise<unknown>) => (
    <ActionButton name={name} label={`${name} session ${id}`} scope="train" act={act} />
  );
  const start = () => api.startSession({ id });
  return (
    <div className="session-actions">
      {selected && session.line > 0 && button("Serve", () => inference.serveModel({ source: id }))}
      {isUnderWay(status) && button("Suspend", () => api.suspendSession({ id }))}
      {status === "suspended" && button("Resume", start)}
      {status === "created" && button("Start", start)}
    </div>
  );
}
