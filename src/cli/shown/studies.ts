// How studies are shown: as a list, as one with its trials, and live until it ends.

import type { Client } from "../../client/client.ts";
import type { Study, Trial } from "../../protocol/gen/dcnr/v1/study_pb.ts";
import { type Output, plain } from "./output.ts";

export function showStudies(out: Output, studies: readonly Study[]): void {
  if (studies.length === 0) {
    out.line("No studies. Search settings: dcnr tune FILE, for example examples/tuning/tpe.yaml");
    return;
  }
  out.table(
    [
      { title: "STUDY" },
      { title: "NAME", shrink: true },
      { title: "STATUS" },
      { title: "OWNER", shrink: true },
      { title: "SEARCH" },
      { title: "SCHEDULE" },
      { title: "TRIALS", align: "right" },
      { title: "BEST", align: "right" },
    ],
    studies.map((study) => [
      study.id,
      study.name,
      study.status,
      study.owner,
      study.search,
      study.schedule,
      `${study.trialsEnded}/${Math.max(study.trialsWanted, study.trialsMade)}`,
      study.best === undefined ? "" : String(study.best),
    ]),
  );
}

/** What it came to where it was last looked at. */
export function lastValue({ values }: Trial): { readonly step: bigint; readonly value: number } | undefined {
  return values.at(-1);
}

export function showStudy(out: Output, study: Study): void {
  const named = study.name === "" ? study.id : `${study.id} (${study.name})`;
  out.line(`${out.tone("dim", "study     ")} ${plain(named)}`);
  out.line(
    `${out.tone("dim", "status    ")} ${plain(study.reason ? `${study.status}: ${study.reason}` : study.status)}`,
  );
  out.line(
    `${out.tone("dim", "search    ")} ${study.search}, schedule ${study.schedule}, seed ${study.seed}, ${study.steps} steps, a look every ${study.every}`,
  );
  out.line();
  const names = study.searched.map(({ name }) => name);
  out.table(
    [
      { title: "TRIAL", align: "right" },
      ...names.map((name) => ({ title: name.toUpperCase(), align: "right" as const })),
      { title: "STEPS", align: "right" },
      { title: study.metric.toUpperCase(), align: "right" },
      { title: "STATUS" },
      { title: "WHY", shrink: true },
    ],
    study.trials.map((trial) => {
      const last = lastValue(trial);
      return [
        trial.number === study.best ? `* ${trial.number}` : String(trial.number),
        ...names.map((name) => settingText(trial.settings[name])),
        last ? String(last.step) : "",
        last ? last.value.toPrecision(5) : "",
        trial.status,
        trial.reason || (trial.parent === undefined ? "" : `copy of trial ${trial.parent} at step ${trial.parentStep}`),
      ];
    }),
  );
}

/** Numbers with as many digits as tell them apart; JSON otherwise. */
export function settingText(json: string | undefined): string {
  if (json === undefined) return "";
  const value: unknown = JSON.parse(json);
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

/** Follows a study until its job ends or the signal says stop. */
export async function followStudy(client: Client, id: string, out: Output, signal: AbortSignal): Promise<Study> {
  let shown = -1;
  for await (const { job } of client.jobs.watch(id, signal)) {
    if (!job) continue;
    const study = await client.studies.get(id);
    const best = study.trials.find(({ number }) => number === study.best);
    const value = best && lastValue(best)?.value.toPrecision(5);
    const line = `${study.trialsEnded} of ${Math.max(study.trialsWanted, study.trialsMade)} trials${value ? `, best ${value} (trial ${study.best})` : ""}`;
    if (study.trialsEnded !== shown) out.note(out.tone("dim", `  ${line}`));
    shown = study.trialsEnded;
    out.status(`${job.status}: ${line}`);
  }
  out.status("");
  return client.studies.get(id);
}
