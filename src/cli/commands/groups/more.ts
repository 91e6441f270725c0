// Commands about the program itself, its engines and its simulator.

import { inGroup } from "../../command.ts";

export const moreCommands = inGroup("More", [
  {
    words: "engine add",
    also: ["engine install"],
    summary: "install the native runtime, or the client of a database",
    load: () => import("../running/engine-add.ts"),
  },
  {
    words: "engine list",
    summary: "engines and clients that are here, and what others bring",
    load: () => import("../running/engine-list.ts"),
  },
  {
    words: "engine remove",
    summary: "remove what was added",
    load: () => import("../running/engine-remove.ts"),
  },
  {
    words: "simulate",
    summary: "run seeded worlds full of faults and compare step roots",
    load: () => import("../running/simulate.ts"),
  },
  {
    words: "config",
    summary: "settings and where they come from",
    load: () => import("../config.ts"),
  },
  {
    words: "completion",
    summary: "shell completion for bash, zsh or fish",
    load: () => import("../completion.ts"),
  },
  {
    words: "version",
    summary: "versions of this program and of the orchestrator",
    load: () => import("../version.ts"),
  },
]);
