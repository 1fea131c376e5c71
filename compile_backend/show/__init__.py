"""How an explanation looks: in the terminal, as a page, as a drawing."""
