// Also replaces Node.js modules, which are not available in a page.
export default {};
