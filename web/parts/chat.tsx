// Talks to a served model: text appears as it is generated, and can be stopped.

import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import { bytes, count } from "../format.ts";
import { useChat } from "./chat-state.ts";
import { Empty, orchestratorFlag } from "./empty.tsx";
import { useModels } from "./models.ts";
import { Panel } from "./panel.tsx";

/** More than any context here holds; the orchestrator refuses it too. */
export const promptBytesMax = 32 * 1024;

export function Chat() {
  const models = useModels();
  const [name, setName] = useState("");
  const model = models.find((one) => one.name === name) ?? models.find((one) => one.status === "ready") ?? models[0];
  return (
    <Panel
      id="chat"
      title="Chat"
      aside={model ? `${model.name} · ${model.status}` : undefined}
      actions={
        models.length > 1 && (
          <select aria-label="Model" value={model?.name} onChange={(event) => setName(event.target.value)}>
            {models.map((one) => (
              <option key={one.name}>{one.name}</option>
            ))}
          </select>
        )
      }
    >
      {model ? (
        <Conversation
          key={model.name}
          model={model.name}
          converses={model.hasChatTemplate}
          note={
            model.status === "ready" ? "" : `${model.status}: ${model.reason || "an answer waits until it is ready"}`
          }
        />
      ) : (
        <Empty
          text="No model is served. Serve what a session has learned:"
          commands={[`dcnr serve SESSION${orchestratorFlag()}`]}
        />
      )}
    </Panel>
  );
}

interface ConversationProps {
  readonly model: string;
  readonly converses: boolean;
  readonly note: string;
}

function Conversation({ model, converses, note }: ConversationProps) {
  const { turns, busy, send, stop } = useChat(model, converses);
  const [text, setText] = useState("");
  const [refusal, setRefusal] = useState("");
  const log = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new text scrolls into view
  useEffect(() => {
    // Newer browsers return a Promise here, which React would take for a clean-up if the effect returned it.
    log.current?.scrollTo({ top: log.current.scrollHeight });
  }, [turns]);

  const change = (value: string) => {
    const size = new TextEncoder().encode(value).byteLength;
    if (size > promptBytesMax) {
      setRefusal(`That is ${bytes(size)} of text; a message may have ${bytes(promptBytesMax)}. It was not taken over.`);
      return;
    }
    setRefusal("");
    setText(value);
  };
  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    if (busy || text.trim() === "") return;
    void send(text);
    setText("");
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    submit();
  };
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <div className="turns" ref={log} role="log" aria-label="Conversation" tabIndex={0}>
        {turns.length === 0 && (
          <p className="quiet-text">{converses ? `Talk to ${model}.` : `Ask ${model} to go on with a text.`}</p>
        )}
        {turns.map((turn) => (
          <p key={turn.id} className="turn" data-who={turn.who} data-state={turn.state}>
            {turn.text}
            {turn.note && <small>{turn.note}</small>}
          </p>
        ))}
      </div>
      {refusal ? (
        <p className="error" role="alert">
          {refusal}
        </p>
      ) : (
        note && (
          <p className="quiet-text" role="status">
            {note}
          </p>
        )
      )}
      <form className="chat-form" onSubmit={submit}>
        <textarea
          aria-label="Message"
          placeholder={converses ? "Hello" : "Once upon a time"}
          rows={2}
          value={text}
          onChange={(event) => change(event.target.value)}
          onKeyDown={onKeyDown}
        />
        {busy ? (
          <button type="button" onClick={stop}>
            Stop
          </button>
        ) : (
          <button type="submit" className="primary" disabled={text.trim() === ""}>
            Send
          </button>
        )}
      </form>
      {text.length > 1_000 && <small className="quiet-text">{count(text.length)} characters</small>}
    </>
  );
}
