import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { markets } from "@/api/market";
import { Card } from "@/components/Card";
import { Time } from "@/components/figures";

/** What to do where nothing is there yet: three steps, none of which rents anything before the last. */
export function FirstSteps() {
  const asked = (useQuery(markets()).data?.items ?? []).filter((each) => each.offers > 0);
  const newest = asked.map((each) => each.succeeded_at ?? "").sort().at(-1);
  return (
    <Card title="Begin here">
      <ol className="first-steps">
        <Step title="Say what to serve">
          <p>
            A fleet says which models to serve, how fast, and where. A new one only observes: it plans and prices, and rents nothing.
          </p>
          <p className="row wrap">
            <Link className="button primary" to="/specs?new=1">New fleet</Link>
            <Link className="button" to="/specs?new=1&cloud=local">One on this machine</Link>
          </p>
        </Step>
        <Step title="Look at what it would cost">
          <p>
            The price stands beside the spec while you write it; <Link to="/what-if">What-if</Link> says what it would be with other demand, prices or objectives. Prices:{" "}
            {newest ? <>clouds were asked <Time at={newest} ago />.</> : <>those that ship, which are months old, until clouds are asked (<Link to="/market">Market</Link>).</>}
          </p>
        </Step>
        <Step title="Let it serve">
          <p>
            Set the fleet's mode to approve or auto in <Link to="/specs">Specs</Link>; <code>medley reconcile</code> then launches what its plan wants. <code>medley doctor</code> says what a cloud
            still lacks, and what is served can be talked to in the <Link to="/playground">Playground</Link>.
          </p>
        </Step>
      </ol>
    </Card>
  );
}

function Step({ title, children }: { title: string; children: ReactNode }) {
  return (
    <li>
      <h3>{title}</h3>
      {children}
    </li>
  );
}
