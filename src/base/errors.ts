/**
 * A mistake of the user's, or of the outside world, that has one clear sentence: what is wrong, where,
 * and what to do. The command line prints it without a stack trace and exits 1. Anything else that is
 * thrown is a fault of ours and keeps its stack.
 */
export class UserError extends Error {
  override name = 'UserError';
  /** `where`: a path, a config key, a URL. `hint`: what to do about it. */
  constructor(
    readonly what: string,
    readonly where?: string,
    readonly hint?: string,
  ) {
    super([where ? `${where}: ${what}` : what, hint].filter(Boolean).join('\n  → '));
  }
}

/** The message of anything thrown, for logs and failure reasons. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
