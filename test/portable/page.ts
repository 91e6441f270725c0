// What the browser runs: the portable engine as it is in Node, and the same training.

import { openPortableEngine } from "../../src/engine/portable/engine.ts";
import { hashesOfTraining } from "./training.ts";

declare global {
  interface Window {
    train: () => Promise<string[]>;
  }
}

window.train = () => hashesOfTraining(openPortableEngine());
