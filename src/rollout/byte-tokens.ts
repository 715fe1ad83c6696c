/** Tokens of single bytes: every vocabulary that can spell any text has all 256. */

export const BYTE_TOKEN = /^<0x([0-9A-F]{2})>$/;

const byteName = (byte: number): string => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;

/** The 256 tokens of single bytes: without one of them some text could not be spelled. */
export function byteTokens(kind: 'byte-level' | 'byte-fallback'): string[] {
  const bytes = Array.from({ length: 256 }, (_, byte) => byte);
  if (kind === 'byte-fallback') return bytes.map(byteName);
  // GPT-2's alphabet: printable Latin-1 stands for itself, the others follow from U+0100 on
  const printable = (b: number): boolean => (b > 32 && b < 127) || (b > 160 && b < 256 && b !== 173);
  let others = 0;
  return bytes.map((b) => String.fromCharCode(printable(b) ? b : 256 + others++));
}

/** A run of byte tokens is text when all of it is UTF-8; else every byte is U+FFFD, as in `tokenizers`. */
function decodeBytes(bytes: number[]): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  } catch {
    return '\uFFFD'.repeat(bytes.length);
  }
}

/** The text of tokens, those of bytes among them. */
export function decodeByteFallback(tokens: string[]): string {
  let text = '';
  let bytes: number[] = [];
  for (const token of tokens) {
    const byte = BYTE_TOKEN.exec(token)?.[1];
    if (byte !== undefined) bytes.push(Number.parseInt(byte, 16));
    else {
      text += decodeBytes(bytes) + token;
      bytes = [];
    }
  }
  return text + decodeBytes(bytes);
}
