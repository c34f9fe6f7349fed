"""Small helpers around programs that use Monarch."""
