"""`millstream datagen` and `millstream demo`: records that look like those of a business."""
