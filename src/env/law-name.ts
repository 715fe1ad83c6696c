/** The short name of a law, as a person would say it. */
export function lawShortName(law: string): string {
  return law;
}
