// Conversations that this device remembers, one for each model: what was said, and how answers went. On this device alone, within
// bounds, and forgotten on request.

export interface Turn {
  readonly id: number;
  readonly who: "you" | "model";
  readonly text: string;
  readonly state: "arriving" | "done" | "stopped" | "failed";
  /** How many tokens, how fast, which machines; or why not. */
  readonly note: string;
}

const prefix = "dcnr-chat-";
/** The oldest go first. */
const turnsMax = 60;
const charactersMax = 100_000;

export function recall(model: string, storage: Pick<Storage, "getItem"> | undefined): readonly Turn[] {
  try {
    const found: unknown = JSON.parse(storage?.getItem(prefix + model) ?? "[]");
    return Array.isArray(found) ? found.filter(isTurn) : [];
  } catch {
    return [];
  }
}

export function remember(
  model: string,
  turns: readonly Turn[],
  storage: Pick<Storage, "setItem" | "removeItem"> | undefined,
): void {
  try {
    if (turns.length === 0) storage?.removeItem(prefix + model);
    else storage?.setItem(prefix + model, JSON.stringify(bounded(turns)));
  } catch {
    // Private windows keep nothing; the conversation lasts as long as the page.
  }
}

/** Pairs of question and answer, the newest that fit. */
export function bounded(turns: readonly Turn[]): readonly Turn[] {
  let characters = 0;
  let first = turns.length;
  while (first > 0 && turns.length - first < turnsMax) {
    characters += (turns[first - 1] as Turn).text.length;
    if (characters > charactersMax) break;
    first -= 1;
  }
  return turns.slice(turns[first]?.who === "model" ? first + 1 : first);
}

/** What is told to the model: pairs whose answer came whole. */
export function saidIn(turns: readonly Turn[]): { role: string; content: string }[] {
  return turns.flatMap((turn, index) => {
    const asked = turns[index - 1];
    if (turn.who !== "model" || turn.state !== "done" || asked?.who !== "you") return [];
    return [
      { role: "user", content: asked.text },
      { role: "assistant", content: turn.text },
    ];
  });
}

/** An answer that was arriving when the page was left did not come whole. */
export function settled(turns: readonly Turn[]): readonly Turn[] {
  return turns.map((turn) => (turn.state === "arriving" ? { ...turn, state: "stopped", note: "broken off" } : turn));
}

function isTurn(value: unknown): value is Turn {
  const turn = value as Turn;
  return (
    typeof value === "object" &&
    value !== null &&
    Number.isInteger(turn.id) &&
    (turn.who === "you" || turn.who === "model") &&
    typeof turn.text === "string" &&
    ["arriving", "done", "stopped", "failed"].includes(turn.state) &&
    typeof turn.note === "string"
  );
}
