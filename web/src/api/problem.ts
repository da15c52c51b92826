import type { components } from "@/../generated/schema";

export type ProblemDocument = components["schemas"]["Problem"];

/** What the API refused, and why; or that it could not be reached. */
export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    readonly document: Partial<ProblemDocument>,
  ) {
    super(document.detail || document.title || `the API answered ${status}`);
  }

  /** The API, its database or what stands before it does not answer now; it may later. */
  get isAway(): boolean {
    return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504;
  }

  get kind(): string {
    return (this.document.type ?? "").split(":").pop() ?? "";
  }
}
