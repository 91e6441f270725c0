// What every page has: the top line with the way to the others, what needs attention, and one page below.

import { pageAt } from "./pages.tsx";
import { Banner } from "./parts/banner.tsx";
import { Empty } from "./parts/empty.tsx";
import { Guarded } from "./parts/guarded.tsx";
import { Header } from "./parts/header.tsx";
import { KeyPrompt } from "./parts/key-prompt.tsx";
import { useAddress } from "./place/use-address.ts";

export function App() {
  const { page: path, item } = useAddress();
  const page = pageAt(path);
  return (
    <>
      <Guarded id="header" title="DCNR">
        <Header path={page?.path} />
      </Guarded>
      <main>
        <Guarded id="banner" title="What needs attention">
          <Banner />
        </Guarded>
        <Guarded id="key" title="Key">
          <KeyPrompt />
        </Guarded>
        {page ? (
          page.show(item)
        ) : (
          <Empty text={`There is no page “${path}” here. The line above leads to those that are.`} />
        )}
      </main>
    </>
  );
}
