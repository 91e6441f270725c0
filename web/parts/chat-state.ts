// One conversation: what was said, and the answer that is arriving.

import { useCallback, useEffect, useRef, useState } from "react";
import { inference, sentence } from "../api.ts";

export interface Turn {
  readonly id: number;
  readonly who: "you" | "model";
  readonly text: string;
  readonly state: "arriving" | "done" | "stopped" | "failed";
  readonly note: string;
}

const tokensMax = 200;
const temperature = 0.8;

export interface ChatState {
  readonly turns: readonly Turn[];
  readonly busy: boolean;
  readonly send: (text: string) => Promise<void>;
  readonly stop: () => void;
}

/** `converses`: the model was taught to, so it gets the whole conversation; others go on with each text by itself. */
export function useChat(model: string, converses: boolean): ChatState {
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [busy, setBusy] = useState(false);
  const abort = useRef<AbortController>(undefined);
  const nextId = useRef(0);
  /** Answers that were stopped or failed are no part of it. */
  const said = useRef<{ role: string; content: string }[]>([]);
  useEffect(() => () => abort.current?.abort(), []);

  const send = useCallback(
    async (prompt: string) => {
      const controller = new AbortController();
      abort.current = controller;
      const answerId = nextId.current + 1;
      nextId.current += 2;
      const changeAnswer = (change: (turn: Turn) => Partial<Turn>) =>
        setTurns((all) => all.map((turn) => (turn.id === answerId ? { ...turn, ...change(turn) } : turn)));
      setBusy(true);
      setTurns((all) => [
        ...all,
        { id: answerId - 1, who: "you", text: prompt, state: "done", note: "" },
        { id: answerId, who: "model", text: "", state: "arriving", note: "" },
      ]);
      const begunMs = performance.now();
      try {
        const asked = converses ? { messages: [...said.current, { role: "user", content: prompt }] } : { prompt };
        const request = { model, ...asked, maxTokens: tokensMax, sampling: { temperature, seed: randomSeed() } };
        let answer = "";
        for await (const piece of inference.generate(request, { signal: controller.signal })) {
          answer += piece.text;
          if (piece.text) changeAnswer((turn) => ({ text: turn.text + piece.text }));
          if (piece.finish) {
            const perSecond = piece.generatedTokens / ((performance.now() - begunMs) / 1000);
            changeAnswer(() => ({ note: `${piece.generatedTokens} tokens, ${perSecond.toFixed(1)}/s` }));
          }
        }
        said.current.push({ role: "user", content: prompt }, { role: "assistant", content: answer });
        changeAnswer(() => ({ state: "done" }));
      } catch (thrown) {
        if (controller.signal.aborted) changeAnswer(() => ({ state: "stopped", note: "stopped" }));
        else changeAnswer(() => ({ state: "failed", note: sentence(thrown) }));
      }
      setBusy(false);
    },
    [model, converses],
  );
  const stop = useCallback(() => abort.current?.abort(), []);
  return { turns, busy, send, stop };
}

function randomSeed(): bigint {
  return BigInt(crypto.getRandomValues(new Uint32Array(1))[0] as number);
}
