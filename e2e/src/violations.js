// The violations that axe-core finds, once the colours of a new theme have faded in.
(async () => {
  await Promise.all(document.getAnimations().map((animation) => animation.finished));
  const { violations } = await axe.run();
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${target.join(" ")}: ${failureSummary}`));
})()
