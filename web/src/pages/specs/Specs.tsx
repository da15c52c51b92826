import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "react-router";
import { useAddress } from "@/address";
import { fleets } from "@/api/queries";
import { source } from "@/api/specs";
import { Loaded } from "@/components/feedback";
import { Page } from "@/layout/Page";
import { Editor } from "./Editor";
import { FleetTable } from "./FleetTable";
import { Beginning } from "./Beginning";

/** What fleets are to serve: all of them, or one that is made or changed. */
export default function Specs() {
  const { fleet } = useParams();
  const [said] = useAddress();
  if (fleet) return <Existing key={fleet} name={fleet} />;
  if (said.has("new")) {
    return (
      <Page title="New fleet" side={<Link to="/specs">All fleets</Link>}>
        <Beginning />
      </Page>
    );
  }
  return (
    <Page title="Specs">
      <FleetTable />
    </Page>
  );
}

function Existing({ name }: { name: string }) {
  const stored = useQuery(source(name));
  const known = useQuery(fleets());
  return (
    <Page title={name} side={<Link to="/specs">All fleets</Link>}>
      <Loaded query={stored} height={480}>
        {(found) => (
          <Loaded query={known} height={480}>
            {(all) => <Editor stored={found} fleet={all.find((each) => each.name === name)} begin={found.source} />}
          </Loaded>
        )}
      </Loaded>
    </Page>
  );
}
