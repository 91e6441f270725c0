// What the browser runs: the engines as they are in Node, and the same training.

import { openExactEngine } from "../../src/engine/exact/engine.ts";
import { openPortableEngine } from "../../src/engine/portable/engine.ts";
import { type HowMuch, rootOfExactTraining } from "./exact-training.ts";
import { hashesOfTraining } from "./training.ts";

declare global {
  interface Window {
    train: () => Promise<{ portable: string[]; exact: string[] }>;
    /** Of a network's definition. */
    trainExactly: (text: string, howMuch?: HowMuch) => Promise<string>;
  }
}

window.train = async () => ({
  portable: await hashesOfTraining(openPortableEngine()),
  exact: await hashesOfTraining(openExactEngine()),
});
window.trainExactly = (text, howMuch) => rootOfExactTraining(text, openExactEngine(), howMuch);
