// A button that changes something: busy while it does, says what went wrong beside it, asks first where it cannot be undone, and
// asks for a key where whoever looks may not do it.

import { useState } from "react";
import { askForKey } from "../access.ts";
import { sentence } from "../api.ts";
import { may, type Scope, useCaller } from "./rights.ts";

interface ActionButtonProps {
  readonly name: string;
  /** Said to those who do not see what it stands beside: "Suspend session mlp-1". */
  readonly label: string;
  readonly scope: Scope;
  readonly act: () => Promise<unknown>;
  /** What happens, where it needs a second press. */
  readonly confirm?: string;
  readonly quiet?: boolean;
}

export function ActionButton({ name, label, scope, act, confirm, quiet }: ActionButtonProps) {
  const caller = useCaller();
  const [state, setState] = useState<"idle" | "asking" | "busy">("idle");
  const [error, setError] = useState("");
  const allowed = may(caller, scope);
  const press = async () => {
    if (!allowed) return askForKey();
    if (confirm && state === "idle") return setState("asking");
    setState("busy");
    setError("");
    try {
      await act();
    } catch (thrown) {
      setError(sentence(thrown));
    }
    setState("idle");
  };
  return (
    <>
      <button
        type="button"
        className={quiet ? "quiet" : ""}
        disabled={state === "busy"}
        onClick={press}
        aria-label={state === "asking" ? `Sure? ${label}: ${confirm}` : label}
        title={allowed ? (confirm ?? "") : `needs a key with the right to ${scope}`}
        data-allowed={allowed}
      >
        {state === "busy" ? "…" : state === "asking" ? "Sure?" : name}
      </button>
      {state === "asking" && (
        <button type="button" className="quiet" onClick={() => setState("idle")}>
          No
        </button>
      )}
      {error && (
        <p className="error" role="alert">
          {error}
        </p>
      )}
    </>
  );
}
