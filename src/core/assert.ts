// Assertions stay on in production: a broken invariant must stop the process that broke it,
// before it can spread a wrong number. Remote input is never asserted, it is validated.

export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}

export function unreachable(value: never, what: string): never {
  throw new AssertionError(`${what}: unexpected ${JSON.stringify(value)}`);
}

export class AssertionError extends Error {
  constructor(message: string) {
    super(`invariant broken: ${message}`);
    this.name = "AssertionError";
  }
}
