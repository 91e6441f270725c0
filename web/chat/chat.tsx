// Talks to a served model: text appears as it is generated, and can be stopped; what was said stays until it is forgotten.

import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import type { Model } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { ActionButton } from "../actions/action-button.tsx";
import { inference } from "../api.ts";
import { bytes, count } from "../format.ts";
import { Empty, orchestratorFlag } from "../parts/empty.tsx";
import { Panel } from "../parts/panel.tsx";
import { useConversation } from "./conversation.ts";
import { useModels } from "./models.ts";

/** More than any context here holds; the orchestrator refuses it too. */
export const promptBytesMax = 32 * 1024;
/** So near the end counts as being there. */
const endSlackPixels = 24;

export function Chat() {
  const { models, again } = useModels();
  const [name, setName] = useState("");
  const model = models.find((one) => one.name === name) ?? models.find((one) => one.status === "ready") ?? models[0];
  return (
    <Panel
      id="chat"
      title="Chat"
      aside={model ? [model.name, model.status, ...guessed(model)].join(" · ") : undefined}
      actions={
        <>
          {models.length > 1 && (
            <select aria-label="Model" value={model?.name} onChange={(event) => setName(event.target.value)}>
              {models.map((one) => (
                <option key={one.name}>{one.name}</option>
              ))}
            </select>
          )}
          {model && (
            <ActionButton
              quiet
              name="End"
              label={`End serving ${model.name}`}
              scope="train"
              confirm="It answers no more; its weights stay."
              act={() => inference.stopModel({ name: model.name }).finally(again)}
            />
          )}
        </>
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
          text="No model is served. Serve what a session has learned, by its button or:"
          commands={[`dcnr serve SESSION${orchestratorFlag()}`]}
        />
      )}
    </Panel>
  );
}

/** How often tokens were guessed rightly, by who guessed. */
function guessed({ guesses }: Pick<Model, "guesses">): string[] {
  return guesses.map(({ kind, guessed: all, right }) => {
    const percent = Math.round((100 * Number(right)) / Math.max(1, Number(all)));
    return `${percent} % of ${all.toLocaleString("en")} guesses ${guessers[kind] ?? `(${kind})`} right`;
  });
}

const guessers: Readonly<Record<string, string>> = {
  schema: "from schemas",
  text: "from the text",
  draft: "by the draft",
};

interface ConversationProps {
  readonly model: string;
  readonly converses: boolean;
  readonly note: string;
}

function Conversation({ model, converses, note }: ConversationProps) {
  const { turns, busy, send, stop, forget } = useConversation(model, converses);
  const [text, setText] = useState("");
  const [refusal, setRefusal] = useState("");
  const log = useRef<HTMLDivElement>(null);
  /** Whoever scrolled up to read is left there. */
  const atEnd = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new text scrolls into view
  useEffect(() => {
    // Newer browsers return a Promise here, which React would take for a clean-up if the effect returned it.
    if (atEnd.current) log.current?.scrollTo({ top: log.current.scrollHeight });
  }, [turns]);
  const scrolled = () => {
    const element = log.current;
    if (element) atEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < endSlackPixels;
  };

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
    atEnd.current = true;
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
      <div className="turns" ref={log} onScroll={scrolled} role="log" aria-label="Conversation" tabIndex={0}>
        {turns.length === 0 && (
          <p className="quiet-text">{converses ? `Talk to ${model}.` : `Ask ${model} to go on with a text.`}</p>
        )}
        {turns.map((turn) => (
          <p key={turn.id} className="turn" data-who={turn.who} data-state={turn.state}>
            <span>{turn.text}</span>
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
      {turns.length > 0 && !busy && (
        <button type="button" className="quiet" onClick={forget}>
          Forget this conversation
        </button>
      )}
      {text.length > 1_000 && <small className="quiet-text">{count(text.length)} characters</small>}
    </>
  );
}
