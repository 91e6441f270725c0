import assert from "node:assert/strict";
import { test } from "node:test";
import type { KeyId } from "../../core/ids.ts";
import { dnsTypes, formatDns, parseDns } from "./dns-message.ts";
import { answerBytes, isQuestion, questionBytes, serviceIn } from "./lan.ts";

const key = "rwvx4qxcf2qkn5m5k5mmsyzy2fvgfjp6hcmtqgqj3wq6v5s7r2fa" as KeyId;

test("a question is known as one, and its answer says port and key", () => {
  const question = parseDns(questionBytes(4_711));
  assert.ok(question && isQuestion(question));
  assert.equal(question.id, 4_711);
  const answer = parseDns(answerBytes(4_711, { port: 7_700, key, name: "the lab. of oak" }));
  assert.ok(answer && !isQuestion(answer));
  assert.deepEqual(serviceIn(answer), { port: 7_700, key, name: "the lab. of oak" });
});

test("questions for other services and answers of other kinds are nobody's business here", () => {
  const other = formatDns({
    id: 1,
    isAnswer: false,
    questions: [{ name: "_ipp._tcp.local", type: dnsTypes.PTR }],
    records: [],
  });
  const parsed = parseDns(other);
  assert.ok(parsed && !isQuestion(parsed));
  assert.equal(serviceIn(parsed), undefined);
  const keyless = parseDns(answerBytes(1, { port: 7_700, key: "short" as KeyId, name: "" }));
  assert.equal(keyless && serviceIn(keyless), undefined);
});

test("names that point at themselves, forwards or in a circle are refused", () => {
  const header = [0, 1, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0];
  const tail = [0, 12, 0, 1, 0, 0, 0, 60, 0, 2];
  assert.equal(parseDns(Uint8Array.from([...header, 0xc0, 12, ...tail, 0xc0, 12])), undefined);
  assert.equal(parseDns(Uint8Array.from([...header, 0xc0, 30, ...tail, 0xc0, 12])), undefined);
  assert.equal(parseDns(Uint8Array.from([...header, 1, 97, 0xc0, 12, ...tail, 0xc0, 12])), undefined);
});

test("what claims more than it holds is refused", () => {
  assert.equal(parseDns(new Uint8Array()), undefined);
  assert.equal(parseDns(new Uint8Array(20_000)), undefined);
  assert.equal(parseDns(Uint8Array.from([0, 1, 0x84, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])), undefined);
  const whole = answerBytes(1, { port: 7_700, key, name: "oak" });
  for (let length = 0; length < whole.length; length++) assert.equal(parseDns(whole.subarray(0, length)), undefined);
});

test("whatever bytes are changed, a message is read or refused, and a key is a key", () => {
  const whole = answerBytes(1, { port: 7_700, key, name: "oak" });
  let word = 12_345;
  for (let round = 0; round < 20_000; round++) {
    const spoiled = Uint8Array.from(whole);
    for (let change = 0; change < 3; change++) {
      word = (Math.imul(word, 1_103_515_245) + 12_345) >>> 0;
      spoiled[(word >>> 8) % spoiled.length] = word >>> 24;
    }
    const message = parseDns(spoiled);
    const service = message && serviceIn(message);
    if (service) assert.match(service.key, /^[a-z2-7]{52}$/);
  }
});
