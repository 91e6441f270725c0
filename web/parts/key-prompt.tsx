// Asks for a key after a call was refused for want of one, or when somebody wants to show one; says where keys come from.

import { type FormEvent, useState } from "react";
import { dismissKey, giveKey, useKeyWanted } from "../access.ts";

export function KeyPrompt() {
  const wanted = useKeyWanted();
  const [text, setText] = useState("");
  if (!wanted) return null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    giveKey(text);
    setText("");
  };
  return (
    <form className="banner" data-tone="wait" onSubmit={submit}>
      <p className="banner-line" role="alert">
        That needs a key, since you are not on the orchestrator's machine. There: <code>dcnr key create</code>
      </p>
      <input
        type="password"
        autoComplete="off"
        aria-label="API key"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <button type="submit" disabled={text.trim() === ""}>
        Use it
      </button>
      <button type="button" className="quiet" onClick={dismissKey}>
        Not now
      </button>
    </form>
  );
}
