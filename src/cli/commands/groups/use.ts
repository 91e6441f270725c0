// Commands that use what was learned: models that are served, exported and asked, and the keys for it.

import { inGroup } from "../../command.ts";

export const useCommands = inGroup("Use", [
  {
    words: "serve",
    summary: "serve a trained session or an imported model",
    load: () => import("../models/serve.ts"),
  },
  {
    words: "infer",
    summary: "continue a prompt, or run samples through a model",
    load: () => import("../models/infer.ts"),
  },
  {
    words: "validate",
    summary: "loss and accuracy on a split of a dataset",
    load: () => import("../networks/validate.ts"),
  },
  {
    words: "chat",
    summary: "talk to a served model",
    load: () => import("../models/chat.ts"),
  },
  {
    words: "model import",
    summary: "import a Hugging Face folder, a GGUF file or an exported file",
    load: () => import("../models/model-import.ts"),
  },
  {
    words: "model pull",
    summary: "fetch a model's files from a hub",
    load: () => import("../models/model-pull.ts"),
  },
  {
    words: "model export",
    summary: "a model as a folder of files",
    load: () => import("../models/model-export.ts"),
  },
  {
    words: "model merge",
    summary: "an adapted model as one without adapters",
    load: () => import("../models/model-merge.ts"),
  },
  {
    words: "model join",
    summary: "several adapters of one base as one model",
    load: () => import("../models/model-join.ts"),
  },
  {
    words: "model list",
    summary: "models that are served or were imported",
    load: () => import("../models/model-list.ts"),
  },
  {
    words: "model stop",
    summary: "stop serving a model",
    load: () => import("../models/model-stop.ts"),
  },
  {
    words: "model remove",
    also: ["model delete"],
    summary: "forget a model",
    load: () => import("../models/model-remove.ts"),
  },
  {
    words: "key create",
    summary: "an API key for callers from elsewhere",
    load: () => import("../rights/key-create.ts"),
  },
  {
    words: "key admit",
    summary: "rights for a person's own key, without a secret",
    load: () => import("../rights/key-admit.ts"),
  },
  {
    words: "whoami",
    summary: "your own key, and what it is good for",
    load: () => import("../rights/whoami.ts"),
  },
  {
    words: "key list",
    summary: "keys: owners, scopes, expiry, last use",
    load: () => import("../rights/key-list.ts"),
  },
  {
    words: "key delete",
    summary: "delete an API key",
    load: () => import("../rights/key-delete.ts"),
  },
]);
