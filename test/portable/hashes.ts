// Prints the hashes of training as JSON: for a process of another Node, or with other flags. `wide` asks for tiles of 16.

import { openPortableEngine } from "../../src/engine/portable/engine.ts";
import { hashesOfTraining } from "./training.ts";

const tile = process.argv[2] === "wide" ? 4 : 3;
console.log(JSON.stringify(await hashesOfTraining(openPortableEngine({ tile }))));
