"""Many scenarios: compared side by side, swept over a grid, and searched for the best tiling. Nothing here prints."""
