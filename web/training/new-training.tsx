// Starts a training from the page: the settings that people change, those of the session that is shown to begin with. The others
// stay as they are there, or as usual; the command line has them all.

import { create, toJsonString } from "@bufbuild/protobuf";
import { type FormEvent, useState } from "react";
import { type NumberField, settingFields } from "../../src/network/settings/setting-fields.ts";
import { type SessionSettings, SessionSettingsSchema } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { askForKey } from "../access.ts";
import { may, useCaller } from "../actions/rights.ts";
import { datasets, jobs, networks, sentence, sessions } from "../api.ts";
import { useAsked } from "../live/asked.ts";
import { goTo } from "../place/use-address.ts";
import { type Draft, draftOf, settingsOf } from "./draft.ts";

const seldomMs = 30_000;

interface NewTrainingProps {
  /** The session whose settings are taken over; "" for none. */
  readonly from: string;
  readonly onDone: () => void;
}

export function NewTraining({ from, onDone }: NewTrainingProps) {
  const base = useAsked(
    `settings ${from}`,
    async () =>
      from === "" ? create(SessionSettingsSchema) : (await sessions.getSession({ id: from })).session?.settings,
    seldomMs,
  );
  const choices = useAsked(
    "choices",
    async () => {
      const [found, data] = await Promise.all([
        networks.listNetworks({ pageSize: 500 }),
        datasets.listDatasets({ pageSize: 500 }),
      ]);
      return { networks: found.networks.map(({ id }) => id), datasets: data.datasets.map(({ name }) => name) };
    },
    seldomMs,
  );
  if (!choices.value || !base.value) return <p className="quiet-text">{choices.refusal || base.refusal || "…"}</p>;
  if (choices.value.networks.length === 0)
    return <p className="quiet-text">There is no network yet: dcnr network create examples/mlp.yaml makes one.</p>;
  return <Form key={from} base={base.value} {...choices.value} onDone={onDone} />;
}

interface FormProps {
  readonly base: SessionSettings;
  readonly networks: readonly string[];
  readonly datasets: readonly string[];
  readonly onDone: () => void;
}

function Form({ base, networks: networkNames, datasets: datasetNames, onDone }: FormProps) {
  const caller = useCaller();
  const [draft, setDraft] = useState<Draft>(() => draftOf(base, networkNames, datasetNames));
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const change = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!may(caller, "train")) return askForKey();
    setBusy(true);
    setError("");
    try {
      const spec = toJsonString(SessionSettingsSchema, settingsOf(base, draft));
      const { jobs: made } = await jobs.submitJobs({ jobs: [{ kind: "train", spec }] });
      const session = made[0]?.session ?? "";
      if (session) goTo({ page: "sessions", item: session });
      onDone();
    } catch (thrown) {
      setError(sentence(thrown));
      setBusy(false);
    }
  };
  return (
    <form className="new-training" onSubmit={submit} aria-label="New training">
      <Choice label="Network" value={draft.network} all={networkNames} onChange={(network) => change({ network })} />
      <Choice label="Dataset" value={draft.dataset} all={datasetNames} onChange={(dataset) => change({ dataset })} />
      <Amount label="Steps" field={settingFields.steps} value={draft.steps} onChange={(steps) => change({ steps })} />
      <Amount label="Batch" field={settingFields.batch} value={draft.batch} onChange={(batch) => change({ batch })} />
      <Amount label="Rate" field={settingFields.rate} value={draft.rate} onChange={(rate) => change({ rate })} />
      <Amount label="Seed" field={settingFields.seed} value={draft.seed} onChange={(seed) => change({ seed })} />
      <Amount
        label="Validate every"
        field={settingFields.validateEvery}
        value={draft.validateEvery}
        onChange={(validateEvery) => change({ validateEvery })}
      />
      <button type="submit" className="primary" disabled={busy}>
        {busy ? "…" : "Train"}
      </button>
      {error && (
        <p className="error" role="alert">
          {error}
        </p>
      )}
    </form>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly all: readonly string[];
  readonly onChange: (value: string) => void;
}

function Choice({ label, value, all, onChange }: ChoiceProps) {
  return (
    <label>
      <span className="label">{label}</span>
      <select value={value} onChange={(event) => onChange(event.target.value)} required>
        {all.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}

interface AmountProps {
  readonly label: string;
  readonly field: NumberField;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function Amount({ label, field, value, onChange }: AmountProps) {
  return (
    <label title={field.summary}>
      <span className="label">{label}</span>
      <input
        type="number"
        inputMode="decimal"
        required
        min={field.least}
        max={field.most}
        step={field.fraction ? "any" : 1}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    </label>
  );
}
