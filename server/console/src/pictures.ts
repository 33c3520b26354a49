/** What the picture of a query needs, loaded when the first one is drawn. */

export { columnsOf, statementsOf } from "./program";
export { drawn, topologyOf } from "./topology";
