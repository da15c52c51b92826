import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect } from "react";
import { NEEDED_ROLE } from "@/../generated/roles";
import { api, got, holdCsrfToken, type Schemas, whenSignedOut } from "./client";
import { ApiProblem } from "./problem";

export type Session = Schemas["Session"];
export type Operation = keyof typeof NEEDED_ROLE;

const KEY = ["session"];
const RANK: Record<string, number> = { client: 0, viewer: 1, operator: 2, admin: 3 };
/** The page came without a session's cookie: there is nobody to ask for. */
const startsWithout = document.querySelector<HTMLMetaElement>('meta[name="medley-session"]')?.content === "none";
const SessionContext = createContext<Session | null>(null);

/** undefined: not known yet; null: nobody is signed in. */
export function useSessionQuery() {
  const client = useQueryClient();
  useEffect(() => whenSignedOut(() => client.setQueryData(KEY, null)), [client]);
  return useQuery({
    queryKey: KEY,
    queryFn: async () => {
      try {
        const session = await got(api.GET("/api/v1/session"));
        holdCsrfToken(session.csrf_token);
        return session;
      } catch (error) {
        if (error instanceof ApiProblem && error.status === 401) return null;
        throw error;
      }
    },
    ...(startsWithout ? { initialData: null } : {}),
    staleTime: 60_000,
  });
}

export function SessionProvider({ session, children }: { session: Session; children: ReactNode }) {
  return <SessionContext.Provider value={session}>{children}</SessionContext.Provider>;
}

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("nobody is signed in");
  return session;
}

/** Starts a session: what an earlier one has seen is forgotten, unless it was the same person's. */
export function useSignIn() {
  const client = useQueryClient();
  return async (token: string, before: string | undefined): Promise<void> => {
    const session = await got(api.POST("/api/v1/session", { body: { token } }));
    holdCsrfToken(session.csrf_token);
    if (before !== session.token_id) client.removeQueries({ predicate: (query) => query.queryKey[0] !== KEY[0] });
    client.setQueryData(KEY, session);
    await client.invalidateQueries();
  };
}

export function useSignOut() {
  const client = useQueryClient();
  return async (): Promise<void> => {
    try {
      await got(api.DELETE("/api/v1/session"));
    } finally {
      holdCsrfToken("");
      client.clear();
      client.setQueryData(KEY, null);
    }
  };
}

/** Why the one who is signed in may not do something; empty: they may. The API decides again. */
export function useRefusal(operation: Operation): string {
  const { role, name } = useSession();
  const needed = NEEDED_ROLE[operation];
  if ((RANK[role] ?? 0) >= (RANK[needed] ?? 9)) return "";
  return `This takes the role ${needed}; ${name} has the role ${role}.`;
}
