// Goes on with an operation by itself; without scripts its button does.
"use strict";
document.getElementById("taskq-continue").submit();
