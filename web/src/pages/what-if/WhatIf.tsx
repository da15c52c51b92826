import { Page } from "@/layout/Page";

export default function Soon() {
  return <Page title="Plan">{null}</Page>;
}
