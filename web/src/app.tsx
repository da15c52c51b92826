import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useRef } from "react";
import { createBrowserRouter, Link, RouterProvider, useRouteError } from "react-router";
import { ApiProblem } from "@/api/problem";
import { SessionProvider, useSessionQuery } from "@/api/session";
import { Empty, ProblemBox, Skeleton } from "@/components/feedback";
import { Page } from "@/layout/Page";
import { PAGES } from "@/layout/pages";
import { Shell } from "@/layout/Shell";
import { SignIn } from "@/layout/SignIn";

const queries = new QueryClient({
  defaultOptions: {
    // A browser that thinks it is offline asks all the same: only an answer that does not come tells people so.
    mutations: { networkMode: "always" },
    queries: {
      networkMode: "always",
      staleTime: 5_000,
      retry: (failures, error) => failures < 2 && !(error instanceof ApiProblem && error.status >= 400 && error.status < 500),
      retryDelay: 800,
    },
  },
});

const router = createBrowserRouter([
  {
    element: <Shell />,
    errorElement: <Broken />,
    children: [
      // A page's code is fetched while the session is asked for, and later before the page that is left goes.
      ...PAGES.map(({ path, load }) => ({
        path: path.replace(/(:\w+)/g, "$1?"),
        lazy: async () => ({ Component: (await load()).default }),
        HydrateFallback: Opening,
        errorElement: <Broken />,
      })),
      { path: "*", element: <Lost /> },
    ],
  },
]);

export function App() {
  return (
    <QueryClientProvider client={queries}>
      <Gate />
    </QueryClientProvider>
  );
}

/** The page's address stays while somebody signs in: it is where they go on. */
function Gate() {
  const session = useSessionQuery();
  const before = useRef<string>(undefined);
  if (session.data) before.current = session.data.token_id;
  if (session.data === null) return <SignIn before={before.current} />;
  if (session.data === undefined) {
    return (
      <main className="sign-in">
        {session.error ? <ProblemBox error={session.error} retry={() => void session.refetch()} /> : <Skeleton width={280} height={4} />}
      </main>
    );
  }
  return (
    <SessionProvider session={session.data}>
      <RouterProvider router={router} />
    </SessionProvider>
  );
}

function Opening() {
  return (
    <div className="main">
      <Skeleton height={320} />
    </div>
  );
}

function Lost() {
  return (
    <Page title="Not found">
      <Empty title="There is no such page">
        <Link to="/">To the overview</Link>
      </Empty>
    </Page>
  );
}

/** A page that cannot be drawn is a bug of it, or of a release that has been replaced since it was loaded. */
function Broken() {
  const error = useRouteError();
  return (
    <main className="sign-in">
      <div className="stack">
        <ProblemBox error={error} retry={() => location.reload()} />
      </div>
    </main>
  );
}
