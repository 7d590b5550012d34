// Stands for modules of Node, too, which a page does not have.
export default {};
