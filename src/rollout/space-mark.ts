/**
 * Tokenizers in the manner of SentencePiece (Llama 2, Mistral 7B) write a space as ▁ and put one before a
 * text's first word. Two forms of tokenizer.json say so: the normalizers Prepend and Replace, or the
 * pre-tokenizer Metaspace. Spaces are marked here, and the library sees text without any.
 */
import { z } from 'zod';

const MARK = '▁';

export interface SpaceMark {
  /**
   * Which stretches of text between control tokens get a mark in front: `every` one; `word`, every one that
   * does not begin with a space; `first`, such a one at the very start of the text; or `never`.
   */
  before: 'every' | 'word' | 'first' | 'never';
  /** Decoding takes the first space of a text away again. */
  strip: boolean;
}

const replaceSpace = z.strictObject({
  type: z.literal('Replace'),
  pattern: z.strictObject({ String: z.literal(' ') }),
  content: z.literal(MARK),
});
const prependMark = z.strictObject({ type: z.literal('Prepend'), prepend: z.literal(MARK) });
const normalizers = z.strictObject({
  type: z.literal('Sequence'),
  normalizers: z.tuple([prependMark, replaceSpace]),
});
const metaspace = z.looseObject({
  type: z.literal('Metaspace'),
  replacement: z.literal(MARK),
  prepend_scheme: z.enum(['always', 'first', 'never']),
  // cutting the text at its marks would keep merges from crossing them
  split: z.literal(false),
});
const stripFirst = z.strictObject({
  type: z.literal('Strip'),
  content: z.literal(' '),
  start: z.literal(1),
  stop: z.literal(0),
});
const decoder = z.looseObject({
  type: z.literal('Sequence'),
  decoders: z
    .tuple([
      z.strictObject({
        type: z.literal('Replace'),
        pattern: z.strictObject({ String: z.literal(MARK) }),
        content: z.literal(' '),
      }),
      z.looseObject({ type: z.literal('ByteFallback') }),
      z.looseObject({ type: z.literal('Fuse') }),
    ])
    .rest(stripFirst),
});

/** The form of a parsed tokenizer.json; undefined when it is neither of the two, in every detail. */
export function spaceMarkOf(json: {
  normalizer?: unknown;
  pre_tokenizer?: unknown;
  decoder?: unknown;
}): SpaceMark | undefined {
  const back = decoder.safeParse(json.decoder);
  if (!back.success || back.data.decoders.length > 4) return undefined;
  const strip = back.data.decoders.length === 4;
  if (!json.pre_tokenizer && normalizers.safeParse(json.normalizer).success)
    return { before: 'every', strip };
  const pre = metaspace.safeParse(json.pre_tokenizer);
  if (json.normalizer || !pre.success) return undefined;
  const scheme = pre.data.prepend_scheme;
  return { before: scheme === 'always' ? 'word' : scheme, strip };
}

/** A stretch of text, not empty, with its spaces marked; `isStart`: nothing stands before it. */
export function markSpaces(text: string, { before }: SpaceMark, isStart: boolean): string {
  const marked = text.replaceAll(' ', MARK);
  if (before === 'every') return MARK + marked;
  const wanted = before === 'word' || (before === 'first' && isStart);
  return wanted && !marked.startsWith(MARK) ? MARK + marked : marked;
}

/** A token's text with its marks as spaces. */
export const unmarkSpaces = (token: string): string => token.replaceAll(MARK, ' ');
