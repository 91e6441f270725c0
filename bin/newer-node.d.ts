export function isNewEnough(nodeVersion?: string): boolean;
export function cacheFolder(): string;
export function newerNode(say: (sentence: string) => void): string;
export function nodeOf(name: string, say: (sentence: string) => void): string;
export function platformPackage(): string;
export function runNpm(args: readonly string[], folder: string, environment?: NodeJS.ProcessEnv): string | undefined;
export function runAs(command: string, args: readonly string[], environment?: NodeJS.ProcessEnv): void;
