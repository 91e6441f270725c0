// Commands that learn: sessions, jobs, studies.

import { inGroup } from "../../command.ts";

export const trainCommands = inGroup("Train", [
  {
    words: "train",
    summary: "train a network on a dataset and watch it",
    load: () => import("../sessions/train.ts"),
  },
  {
    words: "job submit",
    summary: "submit the jobs of a YAML file to their queues",
    load: () => import("../jobs/job-submit.ts"),
  },
  {
    words: "job list",
    summary: "jobs, and why each waits",
    load: () => import("../jobs/job-list.ts"),
  },
  {
    words: "job show",
    summary: "one job: its life, its place in line, its probable start",
    load: () => import("../jobs/job-show.ts"),
  },
  {
    words: "job logs",
    summary: "what happened to a job and to what it runs",
    load: () => import("../jobs/job-logs.ts"),
  },
  {
    words: "job cancel",
    summary: "end a job; what it stored stays",
    load: () => import("../jobs/job-cancel.ts"),
  },
  {
    words: "job retry",
    summary: "let a failed, cancelled or held job go on from where it was",
    load: () => import("../jobs/job-retry.ts"),
  },
  {
    words: "tune",
    summary: "search the settings that train best, by trials that share the fleet",
    load: () => import("../studies/tune.ts"),
  },
  {
    words: "tune list",
    summary: "studies, and how far each is",
    load: () => import("../studies/tune-list.ts"),
  },
  {
    words: "tune show",
    summary: "one study: its trials, their settings and results",
    load: () => import("../studies/tune-show.ts"),
  },
  {
    words: "tune best",
    summary: "the best settings of a study, and the model that they came to",
    load: () => import("../studies/tune-best.ts"),
  },
  {
    words: "tune stop",
    summary: "stop a study; its trials keep what they stored",
    load: () => import("../studies/tune-stop.ts"),
  },
  {
    words: "tune resume",
    summary: "let a stopped study go on from where it was",
    load: () => import("../studies/tune-resume.ts"),
  },
  {
    words: "tune add",
    summary: "more trials for a study, whether it runs or is done",
    load: () => import("../studies/tune-add.ts"),
  },
  {
    words: "session create",
    summary: "a session that waits to be started",
    load: () => import("../sessions/session-create.ts"),
  },
  {
    words: "session list",
    summary: "training sessions",
    load: () => import("../sessions/session-list.ts"),
  },
  {
    words: "session show",
    summary: "one session: settings, progress, step root",
    load: () => import("../sessions/session-show.ts"),
  },
  {
    words: "session suspend",
    summary: "pause a session",
    load: () => import("../sessions/session-suspend.ts"),
  },
  {
    words: "session resume",
    also: ["session start"],
    summary: "start a session, or go on from its recovery line",
    load: () => import("../sessions/session-resume.ts"),
  },
  {
    words: "session watch",
    also: ["session listen"],
    summary: "live progress of a session",
    load: () => import("../sessions/session-watch.ts"),
  },
  {
    words: "session samples",
    summary: "which samples each step used; none lost, none twice",
    load: () => import("../sessions/session-samples.ts"),
  },
  {
    words: "session metrics",
    summary: "metrics of a session as a table, CSV or JSON",
    load: () => import("../sessions/session-metrics.ts"),
  },
  {
    words: "session clone",
    summary: "a session that starts from another's weights",
    load: () => import("../sessions/session-clone.ts"),
  },
  {
    words: "session export",
    summary: "a session's weights as a safetensors file",
    load: () => import("../sessions/session-export.ts"),
  },
  {
    words: "session delete",
    also: ["session remove"],
    summary: "delete a session",
    load: () => import("../sessions/session-delete.ts"),
  },
]);
