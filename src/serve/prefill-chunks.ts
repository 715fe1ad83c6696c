/** Which prompts go into one prefill call. */

/**
 * Cuts prompts, the shortest first, into calls of at most `budget` padded tokens; a longer prompt goes
 * alone. Like lengths go together, so little is padding.
 */
export function prefillChunks<T extends { prompt: number[] }>(prompts: T[], budget: number): T[][] {
  const chunks: T[][] = [];
  let chunk: T[] = [];
  for (const one of [...prompts].sort((a, b) => a.prompt.length - b.prompt.length)) {
    if (chunk.length > 0 && (chunk.length + 1) * one.prompt.length > budget) {
      chunks.push(chunk);
      chunk = [];
    }
    chunk.push(one);
  }
  if (chunk.length > 0) chunks.push(chunk);
  return chunks;
}
