"""How the instances of one service know, ask and relieve each other."""
