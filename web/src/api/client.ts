import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "@/../generated/schema";
import { ApiProblem, type ProblemDocument } from "./problem";
import { answered, unreachable } from "./reach";

export type Schemas = components["schemas"];

/** Follows from the session's cookie; kept in memory only. */
let csrfToken = "";
let onSignedOut: () => void = () => {};

export function holdCsrfToken(token: string): void {
  csrfToken = token;
}

export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

const guard: Middleware = {
  onRequest({ request }) {
    if (csrfToken && request.method !== "GET") request.headers.set("X-CSRF-Token", csrfToken);
    return request;
  },
  onResponse({ response, schemaPath, request }) {
    if ([502, 503, 504].includes(response.status)) unreachable();
    else answered();
    const signsIn = schemaPath === "/api/v1/session" && request.method === "POST";
    if (response.status === 401 && !signsIn) onSignedOut();
  },
  onError() {
    unreachable();
    return new ApiProblem(0, { title: "No answer", detail: "the API cannot be reached from here" });
  },
};

export const api = createClient<paths>({ baseUrl: "", credentials: "same-origin" });
api.use(guard);

type Answer<D> = { data?: D; error?: unknown; response: Response };

/** The body of a good answer. Throws ApiProblem for any other. */
export async function got<D>(answer: Promise<Answer<D>>): Promise<D> {
  return (await whole(answer)).data as D;
}

/** The answer with its headers, where the ETag counts. */
export async function whole<D>(answer: Promise<Answer<D>>): Promise<Answer<D>> {
  const found = await answer;
  if (found.response.ok) return found;
  const body = found.error;
  const document = typeof body === "object" && body !== null ? (body as Partial<ProblemDocument>) : {};
  throw new ApiProblem(found.response.status, document);
}

type Page<I> = { items: I[]; next?: string | null };

/** Every item of a list, page after page; `most` keeps a list that never ends from filling the memory. `onPart`: told
 * of what is there while there is more to come. */
export async function all<I>(page: (cursor: string | undefined) => Promise<Page<I>>, most = 20_000, onPart?: (items: I[]) => void): Promise<I[]> {
  const items: I[] = [];
  let cursor: string | undefined;
  do {
    const found = await page(cursor);
    items.push(...found.items);
    cursor = found.next ?? undefined;
    if (cursor) onPart?.([...items]);
  } while (cursor && items.length < most);
  return items;
}
