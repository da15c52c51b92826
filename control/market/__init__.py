"""The market as a plan and a launch meet it: offers from where they are kept, with what clouds answered."""
