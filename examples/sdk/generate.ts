// Text from a served model, piece by piece as it is made.
// After `dcnr serve SESSION --name gpt`: node examples/sdk/generate.ts gpt "Call me" [ADDRESS] with Node 24; in a clone as examples/README.md says.

import { connect } from "dcnr";

const [model = "gpt", prompt = "Call me", address] = process.argv.slice(2);
const client = connect(address);

process.stdout.write(prompt);
for await (const piece of client.generate(model, prompt, { maxTokens: 40, temperature: 0.8, seed: 7 })) {
  process.stdout.write(piece.text);
  if (piece.finish) console.log(`\n(${piece.finish} after ${piece.generatedTokens} tokens)`);
}
await client.close();
