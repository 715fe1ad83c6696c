/** An answer before it is sent, and the two commonest. */
export interface Reply {
  status: number;
  /** `json-text`: sent as JSON, though it may be none. */
  type: 'json' | 'json-text' | 'text' | 'html';
  body: unknown;
}

export const text = (body: string): Reply => ({ status: 200, type: 'text', body });
export const json = (body: object): Reply => ({ status: 200, type: 'json', body });

/** An error as vLLM words it. */
export function refuse(status: number, type: string, message: string, param: string | null = null): Reply {
  return { status, type: 'json', body: { error: { message, type, param, code: status } } };
}
