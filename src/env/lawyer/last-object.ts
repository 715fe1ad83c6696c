/** Where a thinking model's thought ends. */
const THOUGHT_END = '</think>';

/**
 * The JSON object that ends last in what a model wrote, whatever thought, fence or remark stands around it. Throws
 * when there is none; what a marked thought tries out is none.
 */
export function lastObject(written: string): unknown {
  const thought = written.lastIndexOf(THOUGHT_END);
  const text = thought < 0 ? written : written.slice(thought + THOUGHT_END.length);
  const value = objectEndingAt(text, text.lastIndexOf('}') + 1);
  if (value === undefined) throw new Error('no JSON object');
  return value;
}

/**
 * Braces that open the object, or stand within it: so many are tried. What opens hundreds is no answer, and trying each
 * would take time that grows with the square of the text.
 */
const MOST_BRACES = 64;

/** The JSON object in `text` that ends before the place `end`; undefined where there is none. */
export function objectEndingAt(text: string, end: number): unknown {
  let at = end;
  for (let tried = 0; at > 0 && tried < MOST_BRACES; tried++) {
    at = text.lastIndexOf('{', at - 1);
    if (at < 0) return undefined;
    try {
      return JSON.parse(text.slice(at, end));
    } catch {
      // A brace within the object, or within the thought before it.
    }
  }
  return undefined;
}
